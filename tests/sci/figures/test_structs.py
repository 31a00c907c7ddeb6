"""Classes are read from many threads at once, also at their first use."""

import subprocess
import sys

FIRST_USES = """
import sys, threading, types
import msgspec
from gramwatt.sci.figures.structs import convert, decode

sys.setswitchinterval(1e-6)
HEAD = "(msgspec.Struct, kw_only=True):\\n"
FIELDS = "".join(f"    f{n}: 'int | None' = None\\n" for n in range(20))
CODE = f"class C0{HEAD}{FIELDS}" + "".join(
    f"class C{n}{HEAD}{FIELDS}    inner: 'C{n - 1}'\\n" for n in range(1, 30)
)
TEXT = b'{"inner":' * 29 + b'{"f7":1}' + b"}" * 29
DATA = msgspec.json.decode(TEXT)
read = 0
for number in range(60):
    module = types.ModuleType(f"module{number}")
    module.msgspec = msgspec
    sys.modules[module.__name__] = module
    exec(CODE, module.__dict__)
    together = threading.Barrier(4)

    def ask(n):
        global read
        together.wait()
        value = convert(DATA, module.C29) if n % 2 else decode(TEXT, module.C29)
        read += isinstance(value, module.C29)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(read)
"""


def test_first_uses_of_classes_at_once_do_not_end_the_process():
    code = [sys.executable, "-c", FIRST_USES]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "240\n", "")
