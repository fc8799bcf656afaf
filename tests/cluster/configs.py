"""The text of every configuration file inside the cluster. Pure: settings in, text out."""

from __future__ import annotations

from tests.cluster.settings import ClusterSettings


def slurm_conf(settings: ClusterSettings) -> str:
    """slurm.conf: no cgroups, pretend CPUs and GPUs, accounting with its limits enforced."""
    ports = settings.ports
    lines = [
        "ClusterName=marenostrum5",
        f"SlurmctldHost={settings.hostname}(127.0.0.1)",
        f"SlurmctldPort={ports['slurmctld']}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        "StateSaveLocation=/var/spool/slurmctld",
        "SlurmdSpoolDir=/var/spool/slurmd.%n",
        "SlurmctldPidFile=/run/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd.%n.pid",
        "SlurmctldLogFile=/var/log/slurmctld.log",
        "SlurmdLogFile=/var/log/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SlurmdParameters=config_overrides",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0",
        "EnforcePartLimits=ALL",
        "ReturnToService=2",
        "SlurmctldTimeout=300",
        "SlurmdTimeout=300",
        "KillWait=2",
        f"MinJobAge={settings.min_job_age_s}",
        "JobRequeue=1",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={ports['slurmdbd']}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=associations,limits,qos",
        "AccountingStoreFlags=job_comment",
        "PriorityType=priority/multifactor",
        "PriorityWeightQOS=1000",
        "GresTypes=gpu",
    ]
    if settings.site_rules:
        lines.append("JobSubmitPlugins=lua")
    if settings.private_data:
        lines.append(f"PrivateData={settings.private_data}")
    for index, node in enumerate(settings.nodes, start=1):
        gres = f" Gres=gpu:hopper:{node.gpus}" if node.gpus else ""
        lines.append(
            f"NodeName={node.name} NodeHostname={settings.hostname} NodeAddr=127.0.0.1"
            f" Port={ports[f'slurmd_{index}']} CPUs={node.cpus} RealMemory=20000{gres} State=UNKNOWN"
        )
    for partition in sorted({node.partition for node in settings.nodes}):
        names = ",".join(node.name for node in settings.nodes if node.partition == partition)
        default = "YES" if partition == "gpp" else "NO"
        lines.append(
            f"PartitionName={partition} Nodes={names} Default={default} MaxTime=3-00:00:00"
            " State=UP OverSubscribe=NO"
        )
    return "\n".join(lines) + "\n"


def gres_conf(settings: ClusterSettings) -> str:
    """gres.conf: each GPU needs a device file, or the jobs are not told which GPUs are theirs."""
    return "".join(
        f"NodeName={node.name} Name=gpu Type=hopper File=/run/gpu/nvidia[0-{node.gpus - 1}]\n"
        for node in settings.nodes
        if node.gpus
    )


def slurmdbd_conf(settings: ClusterSettings) -> str:
    """slurmdbd.conf; Slurm insists on mode 600."""
    return (
        "DbdHost=localhost\n"
        f"DbdPort={settings.ports['slurmdbd']}\n"
        "AuthType=auth/munge\n"
        "SlurmUser=root\n"
        "LogFile=/var/log/slurmdbd.log\n"
        "PidFile=/run/slurmdbd.pid\n"
        "StorageType=accounting_storage/mysql\n"
        "StorageHost=127.0.0.1\n"
        f"StoragePort={settings.ports['mariadb']}\n"
        "StorageUser=root\n"
        "StorageLoc=slurm_acct_db\n"
        "CommitDelay=0\n"
    )


def sshd_config(settings: ClusterSettings, *, with_code: bool) -> str:
    """One sshd. `with_code` asks for a key and then, by keyboard-interactive through PAM, for a code."""
    port = settings.ports["ssh_code" if with_code else "ssh"]
    name = "code" if with_code else "main"
    if with_code:
        login = (
            "UsePAM yes\nPasswordAuthentication no\nKbdInteractiveAuthentication yes\n"
            "AuthenticationMethods publickey,keyboard-interactive:pam\n"
        )
    else:
        login = "UsePAM no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\n"
    return (
        f"ListenAddress 127.0.0.1\nPort {port}\nPidFile /run/sshd-{name}.pid\n"
        "HostKey /etc/ssh/test_host_ed25519\nHostKey /etc/ssh/test_host_ecdsa\n"
        "AuthorizedKeysFile /etc/ssh/authorized_keys/%u\nTrustedUserCAKeys /etc/ssh/user_ca.pub\n"
        "StrictModes no\nPermitRootLogin no\nUseDNS no\nPrintMotd no\nPrintLastLog no\n"
        "Banner /etc/issue.net\nMaxStartups 100\nLoginGraceTime 60\nLogLevel VERBOSE\n"
        "AcceptEnv LANG LC_*\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\n"
        f"{login}"
    )


def account_commands(settings: ClusterSettings) -> list[list[str]]:
    """sacctmgr's arguments, in order: cluster, QoS with MareNostrum's limits, account, student."""
    debug = [
        "MaxWall=02:00:00",
        "MaxJobsPerUser=1",
        "MaxSubmitJobsPerUser=1",
        "flags=DenyOnLimit",
        "priority=10000",
    ]
    training = ["MaxWall=2-00:00:00", "flags=DenyOnLimit", "priority=100"]
    granted = "acc_debug,acc_interactive,acc_training,gp_debug,gp_training"
    return [
        ["add", "cluster", "marenostrum5"],
        ["add", "qos", "acc_debug", *debug],
        ["add", "qos", "gp_debug", "MaxWall=02:00:00", "flags=DenyOnLimit", "priority=10000"],
        ["add", "qos", "acc_training", "gp_training", *training],
        [
            "add", "qos", "acc_interactive", "MaxWall=02:00:00", "MaxJobsPerUser=1",
            "MaxSubmitJobsPerUser=366", "flags=DenyOnLimit",
        ],
        ["add", "qos", "acc_bsccase", "MaxWall=2-00:00:00", "flags=DenyOnLimit"],
        ["add", "account", settings.account, "Description=course", "Organization=upc", f"qos={granted}"],
        ["add", "account", "nct_999", "Description=other", "Organization=upc", f"qos={granted}"],
        [
            "add", "user", settings.user, f"account={settings.account}", f"qos={granted}",
            "DefaultQOS=gp_debug",
        ],
    ]  # fmt: skip
