"""How much memory a save takes beyond the caller's state: about one encoded copy.

A child warms up with a small save, makes its state, has the kernel forget the peak so far, and
saves; the peak of its resident memory from there is compared with the size of the payload.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

MIB: Final = 1024 * 1024
PROGRAM: Final = """
import gc, sys
from pathlib import Path
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.limits import Limits
from tests.crash.scenes import checkpoint, writer
place, kind, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024

def realistic(count):
    return [{"id": i, "name": f"item {i:08d}", "tags": ["paid", "ä ö ü"], "amount": i / 7,
             "nested": {"done": True, "note": None, "text": "x" * 40}} for i in range(count)]

with writer(place, limits=Limits(payload_bytes=4 * size)) as store:
    store.save(checkpoint(10))
    state = realistic(size // 160) if kind == "realistic" else list(range(10**6, 10**6 + size // 8))
    known = checkpoint(10).fingerprints
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    store.save(Checkpoint(20, {"items": state}, known))
    peak = status("VmHWM")
    store.load_latest() if size < 2**20 else None
size_bytes = max(path.stat().st_size for path in place.rglob("checkpoint-000020.json"))
print(size_bytes, peak - before)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size_mib", [1, 16, 64])
@pytest.mark.parametrize("kind", ["realistic", "ints"])
def test_a_save_takes_about_one_encoded_copy(fast: Path, kind: str, size_mib: int) -> None:
    """T8: the peak is at most 1.15 x the encoded size + 8 MiB above the caller's own state.

    Method: VmHWM of a child, reset before the save.
    """
    ran = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, fast, kind, str(size_mib * MIB)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"the child: {ran.stderr}")
    size_bytes, peak_bytes = map(int, ran.stdout.split())
    told = f"{kind}: {size_bytes / MIB:.1f} MiB encoded, peak {peak_bytes / MIB:.1f} MiB"
    print(told)
    check(size_bytes >= 0.7 * size_mib * MIB, f"the state is too small: {told}")
    check(peak_bytes <= 1.15 * size_bytes + 8 * MIB, told)
