"""The author's guide names every field."""

import re
from pathlib import Path
from typing import get_args

from msgspec import Struct

from labtui.domain.model import Outcome, TemplateForm
from labtui.lab import edition as schema
from labtui.lab import runs
from labtui.results.charts import FAMILIES

GUIDE = (Path(__file__).parents[2] / "docs/editions.md").read_text(encoding="utf-8")
STRUCTS = [
    value
    for module in (schema, runs)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__
    if value.__name__ not in {"RunPlan", "Band"}  # what follows from a file
]


def test_the_guide_names_every_field_and_every_word_that_one_can_have():
    named = set(re.findall(r"`([\w-]+)(?: = [^`]*)?`", GUIDE))
    assert [struct for struct in STRUCTS if not named.issuperset(struct.__struct_fields__)] == []
    words = {str(kind.__struct_config__.tag) for kind in get_args(schema.Check)}
    words |= {word for literal in (schema.Law, TemplateForm, Outcome) for word in get_args(literal)}
    assert words | FAMILIES.keys() - {"gpu-utilisation"} <= named
