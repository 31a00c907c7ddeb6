"""What this machine has told its user today, so that a warning is not repeated for every job."""

from __future__ import annotations

import os
import time
from pathlib import Path
from zlib import crc32

from gramwatt.collectors.common import files
from gramwatt.collectors.common.identity import node_id

FOLDER = "printed"


def first_today(home: Path, text: str) -> bool:
    """Whether `text` is printed for the first time today (UTC) on this machine, and note it.

    True also where the home takes no note: a warning twice is better than none.
    """
    day = time.strftime("%Y%m%d", time.gmtime())
    folder = home / FOLDER / node_id()
    note = folder / f"{day}-{crc32(text.encode('utf-8', 'replace')):08x}"
    try:
        files.folder(folder)
        for old in folder.iterdir():
            if not old.name.startswith(day):
                old.unlink(missing_ok=True)
        os.close(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
