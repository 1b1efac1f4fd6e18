"""Python in a process of its own, as a user starts it; warnings for users are errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# JAX's words for a file of its cache that cannot be read: processes share the cache, and JAX does
# not write its files in one piece. Whoever reads half a file compiles the program itself.
HALF_WRITTEN = "Error reading persistent compilation cache entry"


def python(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    warnings = ["-W", "error::UserWarning", "-W", f"ignore:{HALF_WRITTEN}:UserWarning"]
    return subprocess.run(
        [sys.executable, *warnings, *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
