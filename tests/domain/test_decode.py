import subprocess
import sys

from labtui.domain.decode import json_text

FIRST_USE = """
import sys, threading, msgspec
from labtui.domain import decode

def first_use():
    parts = [("a%d" % n, dict[str, list[int | None]], {}) for n in range(60)]
    kind = msgspec.defstruct("Whole", [("part", msgspec.defstruct("Part", parts))])
    start = threading.Barrier(8)
    def make():
        start.wait()
        decode.convert({"part": {}}, kind)
        decode.from_json('{"part": {}}', kind)
    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

sys.setswitchinterval(1e-6)
for _ in range(100):
    first_use()
"""


def test_a_class_may_be_made_for_the_first_time_in_several_threads() -> None:
    """Without the lock this ends with a segmentation fault within some tens of tries."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_json_for_other_programs_has_no_nan_and_keeps_a_name_that_is_not_utf_8() -> None:
    assert [json_text([each]) for each in (float("nan"), "é\udcff")] == ["[\n null\n]", '[\n "é\\udcff"\n]']
