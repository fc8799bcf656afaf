"""The text of every configuration file inside the cluster. Pure: settings in, text out."""

from tests.real_cluster.settings import ClusterSettings
from tests.real_cluster.sites import site_of

SAME = """
SlurmUser=root SlurmdUser=root AuthType=auth/munge CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurmctld.pid SlurmdPidFile=/run/slurmd.%n.pid SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.%n.log ProctrackType=proctrack/linuxproc TaskPlugin=task/none MpiDefault=none
SlurmdParameters=config_overrides SelectType=select/cons_tres SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
EnforcePartLimits=ALL ReturnToService=2 SlurmctldTimeout=300 SlurmdTimeout=300 KillWait=2 JobRequeue=1
JobAcctGatherType=jobacct_gather/none AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost AccountingStorageTRES=gres/gpu AccountingStoreFlags=job_comment
PriorityType=priority/multifactor PriorityWeightQOS=1000 GresTypes=gpu
"""
"""The words of slurm.conf that all clusters share."""


def slurm_conf(settings: ClusterSettings) -> str:
    """slurm.conf: no cgroups, simulated CPUs and GPUs, accounting with enforced limits."""
    ports, site = settings.ports, site_of(settings)
    lines = [
        f"ClusterName={site.cluster}", f"SlurmctldHost={settings.hostname}({settings.address})",
        f"SlurmctldPort={ports['slurmctld']}", f"MinJobAge={settings.min_job_age_s}",
        f"AccountingStoragePort={ports['slurmdbd']}", *SAME.split(),
    ]  # fmt: skip
    if not settings.separate_nodes:
        lines.append("CommunicationParameters=NoInAddrAny,NoCtldInAddrAny")
    if site.enforce:
        lines.append(f"AccountingStorageEnforce={site.enforce}")
    if settings.site == "marenostrum":
        lines.append("JobSubmitPlugins=lua")
    if site.private_data:
        lines.append(f"PrivateData={site.private_data}")
    for index, node in enumerate(settings.nodes, start=1):
        gres = f" Gres=gpu:hopper:{node.gpus}" if node.gpus else ""
        host = node.name if settings.separate_nodes else settings.hostname
        lines.append(
            f"NodeName={node.name} NodeHostname={host} NodeAddr={settings.address_of(index)}"
            f" Port={ports[f'slurmd_{index}']} CPUs={node.cpus} RealMemory=20000{gres} State=UNKNOWN"
        )
    return "\n".join([*lines, *site.partitions]) + "\n"


def gres_conf(settings: ClusterSettings) -> str:
    """gres.conf: without a device file for each GPU, jobs would not learn which GPUs are theirs."""
    return "".join(
        f"NodeName={node.name} Name=gpu Type=hopper File=/run/gpu/nvidia[0-{node.gpus - 1}]\n"
        for node in settings.nodes
        if node.gpus
    )


def slurmdbd_conf(settings: ClusterSettings) -> str:
    """slurmdbd.conf; Slurm insists on mode 600."""
    ports = settings.ports
    words = (
        f"DbdHost=localhost DbdPort={ports['slurmdbd']} AuthType=auth/munge SlurmUser=root CommitDelay=0 "
        "LogFile=/var/log/slurmdbd.log PidFile=/run/slurmdbd.pid StorageType=accounting_storage/mysql "
        f"StorageHost=127.0.0.1 StoragePort={ports['mariadb']} StorageUser=root StorageLoc=slurm_acct_db"
    )
    return "\n".join((*words.split(), ""))


def hosts(settings: ClusterSettings) -> str:
    names = [("127.0.0.1", "localhost"), (settings.address, settings.hostname)]
    if settings.separate_nodes:
        names += [
            (settings.address_of(index), node.name) for index, node in enumerate(settings.nodes, start=1)
        ]
    return "".join(f"{address} {name}\n" for address, name in names)


LOGINS = {
    "main": "UsePAM no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\n",
    "code": (
        "UsePAM yes\nPasswordAuthentication no\nKbdInteractiveAuthentication yes\n"
        "AuthenticationMethods publickey,keyboard-interactive:pam\n"
    ),
    "pam": "UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes\n",
}
"""`code` asks for a key and then for a code; `pam` asks PAM whether account and password are still valid."""
PAM_ACCOUNT = (
    "auth required pam_unix.so\naccount required pam_nologin.so\naccount required pam_unix.so\n"
    "password required pam_unix.so\nsession required pam_permit.so\n"
)


def sshd_config(settings: ClusterSettings, name: str) -> str:
    port = settings.ports["ssh" if name == "main" else f"ssh_{name}"]
    login = LOGINS[name]
    return (
        f"ListenAddress {settings.address}\nPort {port}\nPidFile /run/sshd-{name}.pid\n"
        "HostKey /etc/ssh/test_host_ed25519\nHostKey /etc/ssh/test_host_ecdsa\n"
        "AuthorizedKeysFile /etc/ssh/authorized_keys/%u .ssh/authorized_keys\nTrustedUserCAKeys /etc/ssh/user_ca.pub\n"
        "StrictModes no\nPermitRootLogin no\nUseDNS no\nPrintMotd no\nPrintLastLog no\n"
        "Banner /etc/issue.net\nMaxStartups 100\nLoginGraceTime 60\nLogLevel VERBOSE\n"
        "AcceptEnv LANG LC_*\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\n"
        f"{login}"
    )


def account_commands(settings: ClusterSettings) -> list[list[str]]:
    """sacctmgr's arguments, in order: cluster, QoS, accounts, student."""
    site = site_of(settings)
    return [["add", "cluster", site.cluster], *(list(words) for words in site.accounts)]
