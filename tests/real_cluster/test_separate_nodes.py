"""Nodes with addresses of their own: a step spans them and a lost one is missed."""

from __future__ import annotations

import pytest

from tests.real_cluster import Cluster
from tests.real_cluster.cluster import wait_until

pytestmark = [pytest.mark.cluster(separate_nodes=True), pytest.mark.xdist_group("two-nodes")]
BOTH = "srun -N2 --ntasks-per-node=1"


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
