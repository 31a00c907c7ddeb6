"""A meter that measures nothing: it reads what processes write, and writes down what it was told.

Usage: fake_meter.py FOLDER LOG [mode]. Modes: "" answers everything; "mute" never answers; "dies"
exits when something was counted, once; "full" has a full disk; "late" has the line about the job a
while after its end.
"""

import json
import os
import sys
import time

from gramwatt.collectors.settings.proc import process_start_ns
from gramwatt.collectors.spool.counts import Processes
from gramwatt.collectors.track.counts import PRINTED, JobFolder


def main() -> None:
    folder, log, mode = JobFolder(sys.argv[1]), sys.argv[2], (sys.argv[3:] or [""])[0]
    folder.listen()
    has_died = os.path.exists(log)
    processes = Processes(folder, process_start_ns)
    with open(log, "a", encoding="utf-8") as out:

        def note(**message: object) -> None:
            out.write(json.dumps({**message, "meter": os.getpid()}) + "\n")
            out.flush()

        note(cmd="meter")
        if mode == "mute":
            time.sleep(60)
        folder.say({"ready": True, "notices": [["zone-unknown", "No grid zone was given."]]})
        while True:
            for process in processes.enter():
                note(cmd="start", **process.first)
            for process in processes:
                for message in process.messages():
                    note(**message)
            totals = [[*key, total] for key, total in processes.totals().items()]
            if mode == "dies" and not has_died and any(total for *_, total in totals):
                return
            if not processes.running():
                break
            time.sleep(0.002)
        folder.close()
        processes.end()
        note(cmd="totals", totals=totals)
        stops = [process.stop for process in processes.deciding()]
        note(cmd="end", stops=stops)
    status = {**folder.status(), "closed": True}
    folder.say({**status, **({"unwritten": "No space left"} if mode == "full" else {})})
    if mode == "late":
        time.sleep(0.8)
        folder.say({**status, "lines": ["the figures"]})
        if os.path.exists(folder.at(PRINTED)):  # nobody waits any more
            folder.remove()
    os.close(0)  # the lock


if __name__ == "__main__":
    main()
