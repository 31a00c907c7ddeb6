"""A meter that measures nothing: it follows the protocol and writes down what it was told.

Usage: fake_meter.py LOG [mode]. Modes: "" answers everything; "mute" never answers; "dies" exits
after the first count, once; "off" closes at once; "deaf" stops reading after the start line; "full"
has a full disk; "late" has the line about the job a while after its end.
"""

import json
import os
import sys
import time


def main() -> None:
    log, mode = sys.argv[1], (sys.argv[2:] or [""])[0]
    restarted = False
    with open(log, "a", encoding="utf-8") as out:
        for line in sys.stdin:
            message = json.loads(line)
            out.write(json.dumps({**message, "meter": os.getpid()}) + "\n")
            out.flush()
            restarted = restarted or "restart" in message
            if message["cmd"] == "start" and mode == "off":
                reply("closed")
                return
            if message["cmd"] == "start" and mode != "mute":
                reply("ready", notices=["zone-unknown: No grid zone was given."])
            if message["cmd"] == "start" and mode == "deaf":
                time.sleep(60)
            mortal = mode == "dies" and not restarted
            if message["cmd"] == "count" and mortal:
                return
            if message["cmd"] == "stop" and mode != "mute":
                reply("closed", **({"unwritten": "No space left"} if mode == "full" else {}))
                if mode == "late":
                    time.sleep(0.8)
                    reply("ended", lines=["the figures"])
                return


def reply(kind: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"reply": kind, **more}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
