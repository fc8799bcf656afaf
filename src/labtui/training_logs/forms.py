"""Every form of line that is read: a table of readers without state, and the order in which they are asked.

A row turns a line into what it says (`said`); which run that is about is the fold's to decide. The order of trust for
an epoch's time: MLPerf records, then Keras's lines, then other trainers' forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labtui.domain.model import Program
from labtui.training_logs import (
    course_script,
    forms_imagenet,
    mlperf,
    own_patterns,
    patterns,
    rates,
    run_headers,
)
from labtui.training_logs.keras import read_first_step, read_header, read_summary
from labtui.training_logs.lines import LogLine
from labtui.training_logs.said import KerasLine, Opens, Said

WORDS = (
    *("Epoch", "/step", "/epoch", "/sample", "/batch", "/Unknown", "s - ", "] - ", "EPOCH", ":::ML"),
    *("Model", "size: ", "SIZE: ", "eplicas: ", "EPLICAS: ", "evices: ", "EVICES: ", "Train on"),
    *("ob Name", "ob name", "OB NAME", "practice: ", "job: ", "run-", ".py", "Device: "),
    *("img/sec", "imgs/s", "### ", "@1 ", ">>>", "finished", "Time: ", "\\", "trategy with", "=> ", "epoch"),
    *("100%", " \u2022 ", "topping", "ran out of data", "GPU memory reserved", "Tokens/s", "GPU Memory"),
    *("oneDNN custom", "binary is optimized", "checkpoint", "esuming ", "estarting ", "Continuing ", "worker group"),
    *rates.WORDS,
    *("/s", "s/it", "Signaling", "#na#", "0000 ", "pci bus id", "(UUID: "),
)  # fmt: skip
"""Every form's lines hold one of these; lines with none are not even cut."""
_COURSE = (
    "[EPOCH:",
    "### ",
    ">>>",
    "finished!",
    "Time: ",
    "imgs/s",
    "Tokens/s/GPU",
    "GPU memory",
    "GPU Memory",
)
_FASTAI = re.compile(r"\d{1,7} +\d")


class Forms:
    """The forms of one log: those that all logs may have, a person's own, and the lines of an edition's programs."""

    def __init__(self, own: Sequence[own_patterns.OwnPattern] = (), programs: Sequence[Program] = ()) -> None:
        self._own = tuple(own)
        self._programs = [
            (program, patterns.line_pattern(line)) for program in programs for line in program.lines
        ]
        self.every_line = bool(own or programs)

    def read(self, line: LogLine, text: str) -> list[Said] | None:
        """What `text`, the line without its marks, says; None when no form reads it."""
        if self.every_line:
            if (said := patterns.read_program(self._programs, text)) is not None:
                return said
            if (one := own_patterns.read_own(self._own, text)) is not None:
                return [one]
        if "Epoch: [" in text or text.startswith("Test: [") or "@1 " in text:
            one = forms_imagenet.read(text)  # by far the most lines of a log of PyTorch's ImageNet example
            if one is not None:
                return [one]
        if ":::ML" in text and (records := mlperf.read_records(text)):
            return [said for record in records for said in mlperf.said_of(line.number, record)]
        return self._keras(line, text) or self._other(line, text)

    @staticmethod
    def _keras(line: LogLine, text: str) -> list[Said] | None:
        if "Epoch" in text and (header := read_header(text)):
            return [Opens("keras", header[0], header[1])]
        if "s" in text and (summary := read_summary(text, line.head, line.before)):
            return [KerasLine(summary, line.continues)]
        if "1/" in text and (first := read_first_step(text)):
            return [first]
        return None

    @staticmethod
    def _other(line: LogLine, text: str) -> list[Said] | None:
        if (said := rates.read(text)) is not None:
            return said
        if any(word in text for word in _COURSE) and (said := course_script.read(text)) is not None:
            return said
        maybe = (
            "poch" in text or "POCH" in text or "100%" in text or " \u2022 " in text or _FASTAI.match(text)
        )
        if maybe and (one := patterns.read(text)) is not None:
            return [one]
        return run_headers.read(line.number, text)
