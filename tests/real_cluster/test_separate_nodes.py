"""Nodes with addresses of their own: a step spans them, a lost one is missed, their network can be slow."""

from __future__ import annotations

import json

import pytest

from tests.real_cluster import Cluster
from tests.real_cluster.cluster import wait_until
from tests.real_cluster.shaped_network import NO_TUN

pytestmark = [pytest.mark.cluster(separate_nodes=True), pytest.mark.xdist_group("two-nodes")]
BOTH = "srun -N2 --ntasks-per-node=1"
MEASURE = """
import json, os, socket, statistics, sys, time

port = 20000 + int(os.environ["SLURM_JOB_ID"])
if os.environ["SLURM_PROCID"] == "1":
    stream, _ = socket.create_server(("", port)).accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(30):
        stream.sendall(stream.recv(1))
    while stream.recv(1 << 20):
        pass
    sys.exit()
while True:
    try:
        stream = socket.create_connection(("node2", port))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
trips = []
for _ in range(30):
    began = time.perf_counter()
    stream.sendall(b"x")
    stream.recv(1)
    trips.append(time.perf_counter() - began)
began = time.perf_counter()
megabytes = int(sys.argv[1])
for _ in range(megabytes):
    stream.sendall(bytes(1_000_000))
stream.shutdown(socket.SHUT_WR)
stream.recv(1)
print(json.dumps([1000 * statistics.median(trips), 8 * megabytes / (time.perf_counter() - began)]))
"""
"""Prints the median round trip in ms and what went from the first node to the second, in Mbit/s."""


def test_a_step_on_two_nodes_and_a_node_that_is_lost(pair: Cluster) -> None:
    places = pair.as_student(f"{BOTH} sh -c 'echo $(hostname) $(hostname -I)'").out
    subnet = pair.settings.subnet
    assert sorted(places.split("\n")) == [f"node1 {subnet}.11", f"node2 {subnet}.12"]
    pair.as_student(f"sbatch --no-requeue -N2 -o /dev/null --wrap '{BOTH} sleep 300'")
    wait_until(lambda: "RUNNING" in pair.jobs().values(), what="the job")
    pair.lose_node(2)
    wait_until(lambda: "NODE_FAIL" in pair.jobs().values(), what="the job to be given up with its node")
    pair.repair()
    assert pair.as_student(f"{BOTH} true").status == 0


@pytest.mark.skipif(bool(NO_TUN), reason=NO_TUN)
def test_a_shaped_network_has_its_delay_and_its_rate(pair: Cluster) -> None:
    place = f"{pair.settings.scratch}/measure_network.py"
    pair.outside(place).write_text(MEASURE)

    def measured(megabytes: int) -> tuple[float, float]:
        done = pair.as_student(f"{BOTH} --quiet {pair.settings.python} {place} {megabytes}")
        assert done.status == 0, done.err
        round_trip_ms, mbit_per_s = json.loads(done.out)
        return round_trip_ms, mbit_per_s

    free = measured(40)
    pair.shape_network(mbit_per_s=100, delay_ms=5)
    slow = measured(4)
    pair.shape_network(mbit_per_s=400, delay_ms=1)
    less_slow = measured(8)
    pair.repair()
    again = measured(40)
    assert free[0] < 5 and again[0] < 5, (free, again)
    assert 10 <= slow[0] < 30 and 2 <= less_slow[0] < 10, (slow, less_slow)
    assert 50 < slow[1] < 105 < less_slow[1] < 420 < min(free[1], again[1]), (free, slow, less_slow, again)
