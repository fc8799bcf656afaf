"""What labtui expects of Slurm and OpenSSH, checked on the real ones and on the practice cluster.

The same tests run on every site of `tests.contract.sites`. They compare shapes (a number, a node list, a
sentence), never times. Where the practice cluster differs from the real one, the practice cluster is wrong.
"""
