"""Which framework a training process has loaded: read from `sys.modules`, never imported.

Standard library only, some microseconds. Precision is not reported: autocast is over when a job
ends, and the default type of a tensor does not say in which type the work was done.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FRAMEWORKS = {
    "vllm": ("vllm", ("torch",)),
    "tensorrt_llm": ("tensorrt-llm", ("torch", "tensorrt")),
    "torch_neuronx": ("neuron", ("torch",)),
    "llama_cpp": ("llama.cpp", ()),
    "torch": ("pytorch", ()),
    "tensorflow": ("tensorflow", ()),
    "jax": ("jax", ()),
    "tensorrt": ("tensorrt", ()),
    "mlx.core": ("mlx", ()),
}
"""Module name -> (framework name, modules it builds on, which are not counted separately).

Framework names are those of sci/suggest/facts.py."""
VERSION_LENGTH = 64


def loaded_frameworks(modules: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return `framework` and `versions` of the frameworks in use, empty without any.

    With two frameworks of which neither is built on the other, `framework` is left out: nothing
    shows which one did the work.
    """
    modules = sys.modules if modules is None else modules
    versions = {name: text for name in FRAMEWORKS if (text := _version(modules.get(name)))}
    used = {name: FRAMEWORKS[name] for name in versions}
    built_on = {module for _, modules_below in used.values() for module in modules_below}
    frameworks = [framework for name, (framework, _) in used.items() if name not in built_on]
    software: dict[str, Any] = {"versions": versions} if versions else {}
    return software | ({"framework": frameworks[0]} if len(frameworks) == 1 else {})


def _version(module: Any) -> str | None:
    # Attribute access on a lazy module would import it.
    try:
        version = object.__getattribute__(module, "__dict__").get("__version__")
    except AttributeError:
        return None
    return str(version)[:VERSION_LENGTH] if isinstance(version, str) and version else None
