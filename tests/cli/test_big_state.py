"""A real state of 10 MB through the command line, and one flipped byte in each of its files."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any, Final

import pytest

from lastgood.formats.names import LOCK
from tests.cli.commands import Place
from tests.support.check import check, check_equal
from tests.support.require import require_corpora
from tests.support.trees import picture
from tests.support.values import same

SIZE_BYTES: Final = 10_000_000


def package_lock(*, seed: int = 1) -> dict[str, Any]:
    """What ``npm install`` writes for a large project, as a value: the same for each seed."""
    chance = random.Random(seed)
    packages: dict[str, Any] = {"": {"name": "app", "version": "1.0.0", "license": "MIT"}}
    size_bytes = 0
    while size_bytes < SIZE_BYTES:
        name = f"{chance.choice(['', '@types/', '@é/'])}pkg-{len(packages)}"
        digest = hashlib.sha512(name.encode()).hexdigest()
        entry = {
            "version": f"{chance.randrange(20)}.{chance.randrange(50)}.{chance.randrange(9)}",
            "resolved": f"https://registry.example/{name}/-/{name}.tgz",
            "integrity": f"sha512-{digest[:86]}==",
            "dev": chance.random() < 0.5,
            "size": chance.randrange(2**40),
            "score": chance.random(),
            "engines": {"node": ">=14"},
            "funding": None,
            "dependencies": {f"dep-{n}": "^1.0.0" for n in range(chance.randrange(8))},
        }
        packages[f"node_modules/{name}"] = entry
        size_bytes += len(json.dumps(entry, indent=2)) + 60
    return {"name": "app", "lockfileVersion": 3, "requires": True, "packages": packages}


@pytest.mark.slow
def test_real_state_of_10_mb_comes_back_and_each_flipped_byte_is_refused(place: Place) -> None:
    """The same JSON comes back; then one flipped byte in any file but the lock gives 2 to 5.

    Method: a package-lock of 10 MB, as npm spells it, saved once; each file flipped in turn, with
    ``load`` and ``verify``, and the tree compared.
    """
    state = package_lock()
    text = json.dumps(state, indent=2, ensure_ascii=False).encode("utf-8")
    check(len(text) >= SIZE_BYTES, f"only {len(text)} bytes")
    (place.top / "package-lock.json").write_bytes(text)
    words = ("save", "nightly", "--sequence", "10", "--state")
    place.run(*words, "package-lock.json").left(0)
    loaded = place.run("load", "nightly").left(0).out
    check(same(json.loads(loaded), state), "another value came back")

    files = [path for path in sorted(place.root.rglob("*")) if path.is_file()]
    check(len(files) >= 6, f"{files}")
    for path in files:
        if path.name == LOCK:
            continue
        middle = path.stat().st_size // 2
        place.flip(path, at=middle)
        before = picture(place.root)
        codes = {verb: place.run(verb, "nightly").code for verb in ("load", "verify")}
        check_equal(picture(place.root), before, f"the tree, with {path.name} flipped")
        check(set(codes.values()) <= {2, 3, 4, 5}, f"{path.name}: {codes}")
        place.flip(path, at=middle)

    # What load prints is what save takes: the same bytes, so the same save again is a no-op.
    (place.top / "loaded.json").write_bytes(loaded)
    check("unchanged" in place.run(*words, "loaded.json").left(0).text, "not a no-op")


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["blns", "wycheproof"])
def test_files_that_programs_wrote_come_back(corpus: str, place: Place) -> None:
    """What programs really write comes back as the same value. Method: public test data."""
    files = sorted(require_corpora(corpus).rglob("*.json"), key=lambda path: path.stat().st_size)
    for number, path in enumerate(files[-3:], 1):
        place.run("save", "s", "--sequence", str(number), "--state", str(path)).left(0)
        value = json.loads(path.read_text(encoding="utf-8"))
        check(same(json.loads(place.run("load", "s").left(0).out), value), str(path))
