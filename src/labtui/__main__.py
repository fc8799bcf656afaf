"""`python -m labtui`."""

import sys

from labtui.commands.cli import main

sys.exit(main())
