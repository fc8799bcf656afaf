"""`python -m labtui`."""

import sys

from labtui.cli import main

sys.exit(main())
