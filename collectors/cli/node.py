"""The command `gramwatt node`: the meter of a whole node, as a DaemonSet or a service runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramwatt.collectors.common.config import resolve
from gramwatt.collectors.common.platform import refused
from gramwatt.collectors.tracking.messages import print_message


def node(
    pod_resources: Annotated[
        Path | None, typer.Option(help="The kubelet's socket, by default where it usually is.")
    ] = None,
    pod_logs: Annotated[
        Path, typer.Option(help="The kubelet's folder of logs, whose names have pods' uids.")
    ] = Path("/var/log/pods"),
    cgroup: Annotated[Path, typer.Option(help="The node's cgroups.")] = Path("/sys/fs/cgroup"),
    labels_of: Annotated[
        str | None,
        typer.Option(help="This node's name: labels of its pods are asked of the API server."),
    ] = None,
) -> None:
    """Measure all boards and the host of this node, for the jobs that run on it, until stopped.

    Jobs are pods, Slurm jobs or cgroups; what belongs to none is the rest, a job of each day.
    """
    if text := refused():
        print_message(text)
        raise typer.Exit(1)
    from gramwatt.collectors.journal.spool import usable_home
    from gramwatt.collectors.node.run import Places, run_node

    config = resolve()
    for notice in config.notices:
        print_message(notice.message)
    try:
        home = usable_home(config.home)
    except OSError as error:
        print_message(f"{error}; set GRAMWATT_HOME to a folder that can be written")
        raise typer.Exit(1) from None
    raise typer.Exit(run_node(config, home, Places(pod_resources, pod_logs, cgroup, labels_of)))
