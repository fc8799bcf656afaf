"""The laptop slept and its line died: noticed within 5 s of waking, on a clock that only the test moves.

The clock plays the watchdog's thread: whoever sleeps on it lets the watchdog look around once a second.
"""

import random
from collections.abc import Callable, Sequence

import pytest

from labtui.cluster.files import FileStat
from labtui.domain.errors import ConnectionLost
from labtui.session.worker_context import RHYTHM_S, Watchdog
from labtui.slurm.queue import QueueAnswer
from tests.session.conftest import Bench, draft, lab_path, open_bench
from tests.session.scripted import FakeClock, ScriptedCluster, keras_log

__all__ = ["lab_path", "open_bench"]  # fixtures

NOTICED_WITHIN_S = 5.0
ROUNDING_S = 1e-6
NEVER_S = 900.0
"""What the system itself would wait for an answer."""


class WatchedClock(FakeClock):
    """A clock beside which a watchdog looks around every `RHYTHM_S` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.watchdog: Watchdog | None = None
        self.next_look = self.now + RHYTHM_S

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while self.next_look <= end:
            self.now, self.next_look = self.next_look, self.next_look + RHYTHM_S
            if self.watchdog is not None:
                self.watchdog.check()
        self.now = end

    def computer_sleeps(self, seconds: float, *, steady_too: bool) -> None:
        """Nothing runs meanwhile. Systems differ in whether the steady clock stands still."""
        if steady_too:
            self.now += seconds
            self.next_look += seconds
        else:
            self.offset += seconds


class FreezingCluster(ScriptedCluster):
    """While `frozen`, nothing is answered: a call waits until its deadline, or until the line is closed.

    `while_waiting` happens once, `after_s` into such a call.
    """

    frozen = False
    while_waiting: Callable[[], None] | None = None
    after_s = 0.0

    def _silence(self, deadline_s: float) -> None:
        clock = self.clock
        assert isinstance(clock, WatchedClock)
        began = clock.now
        while self.frozen and self.connected and clock.now - began < deadline_s:
            happens_at = began + (self.after_s if self.while_waiting else deadline_s)
            if self.while_waiting is not None and clock.now >= happens_at:
                happens, self.while_waiting = self.while_waiting, None
                happens()
                continue
            clock.sleep(min(began + deadline_s, clock.next_look, happens_at) - clock.now)
        if self.frozen:
            self.connected = False
            raise ConnectionLost("No answer came.")

    def ping(self, deadline_s: float) -> None:
        self._silence(deadline_s)
        super().ping(deadline_s)

    def stat(self, path: str) -> FileStat | None:
        self._silence(NEVER_S)
        return super().stat(path)

    def tick(self, vanished: Sequence[str]) -> QueueAnswer:
        self._silence(NEVER_S)
        return super().tick(vanished)

    def connect(self) -> None:
        self.frozen = False  # a new connection goes another way
        super().connect()


def awake(bench: Bench, until: Callable[[], bool], seconds: float) -> None:
    """The worker works; what the watchdog asks of it wakes it, as it would in its thread."""
    clock = bench.clock
    assert isinstance(clock, WatchedClock)
    end = clock.now + seconds
    while not until():
        assert clock.now < end, "it did not come to pass"
        pause = bench.worker.turn()
        rest = max(0.0, min(end, clock.next_look) - clock.now)
        clock.sleep(rest if pause is None else min(pause, rest))


def status(bench: Bench) -> str:
    return bench.session.state.connection.status


def whole(bench: Bench, token: str) -> bool:
    return bench.mirror(token) == bench.cluster.contents[bench.cluster.log("100")]


@pytest.mark.parametrize("steady_too", [False, True], ids=["steady-clock-stands", "steady-clock-goes-on"])
@pytest.mark.parametrize("doing", ["nothing", "following", "asking"])
def test_a_dead_line_is_noticed_within_five_seconds_of_waking(open_bench, doing, steady_too, monkeypatch):
    """Fifteen times asleep, for seconds or for a day, at any moment: noticed in time, and the missed lines are read."""
    chooser = random.Random(f"{doing} {steady_too}")
    clock = WatchedClock()
    cluster = FreezingCluster(clock)
    bench = open_bench(cluster)
    clock.watchdog = bench.worker._watchdog
    monkeypatch.setattr("labtui.session.worker_context.random", chooser)
    awake(bench, lambda: status(bench) == "online", 10)
    token = ""
    if doing != "nothing":
        future = bench.session.submit(draft())
        awake(bench, future.done, 20)
        token = future.result()
        cluster.start("100")
        cluster.write("100", keras_log(5))
        bench.session.watch_logs(frozenset({token}))
        awake(bench, lambda: whole(bench, token), 60)
    late = []
    for _ in range(15):
        lasts = clock.now + chooser.uniform(0, 3)
        awake(bench, lambda lasts=lasts: clock.now >= lasts, 10)
        woke: list[float] = []

        def sleep(woke: list[float] = woke) -> None:
            clock.computer_sleeps(chooser.choice((6.5, 20, 600, 30_000, 90_000)), steady_too=steady_too)
            woke.append(clock.now)

        cluster.frozen = True
        if doing == "asking":
            cluster.while_waiting, cluster.after_s = sleep, chooser.uniform(0, 3)
        else:
            sleep()
        awake(bench, lambda: status(bench) == "offline", 120)
        late.append(clock.now - woke[0])
        if token:
            cluster.write("100", b"a line that was missed\n")
        awake(bench, lambda: status(bench) == "online", 60)
        if token:
            awake(bench, lambda: whole(bench, token), 10)
    print(f"noticed after {min(late):.2f} to {max(late):.2f} s")
    assert max(late) <= NOTICED_WITHIN_S + ROUNDING_S
    assert cluster.count("connect") == 16, "one connection for each sleep"
