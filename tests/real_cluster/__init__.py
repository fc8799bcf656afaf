"""A real OpenSSH and a real Slurm on 127.0.0.1, for the tests and to try things by hand.

``python -m tests.real_cluster up DIR`` starts one, ``down DIR`` ends it; the pytest fixture ``cluster`` does the
same. Everything lives in Linux namespaces of its own (processes, mounts, host name): the student's account,
``/gpfs`` and ``/etc/slurm`` exist only inside, and when the supervisor ends the kernel ends and unmounts all.

Nothing here uses code of labtui, because the cluster must be able to contradict it.
"""

from tests.real_cluster.cluster import Cluster, ClusterFailed, Student
from tests.real_cluster.proxy import FaultProxy
from tests.real_cluster.requirements import missing_requirements
from tests.real_cluster.settings import ClusterSettings

__all__ = ["Cluster", "ClusterFailed", "ClusterSettings", "FaultProxy", "Student", "missing_requirements"]
