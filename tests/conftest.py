"""What holds for every test: requirements by marker, no silent skip, repeatable properties."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections import Counter
from collections.abc import Callable, Generator

import pytest
from hypothesis import HealthCheck, settings

from lastgood.storage.posix import PosixRoot, PosixStorage
from tests.support import require

# The same examples in every run, so that CI is repeatable; a failure prints what repeats it.
# No wall clock decides: neither a deadline nor "too slow", which a busy machine alone can cause.
# `--hypothesis-profile=explore` looks for new examples.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("repeatable"), derandomize=False, max_examples=1_000
)
settings.load_profile("repeatable")

_BY_MARKER = {
    "needs_ptrace": require.require_ptrace,
    "needs_root": require.require_root,
    "needs_strace": require.require_strace,
    "needs_unprivileged_user": require.require_unprivileged_user,
    "needs_unshare": require.require_unshare,
}


def pytest_configure() -> None:
    """Take as many descriptors as may be had: exhaustive tests hold handles until they end."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.fixture(autouse=True)
def _given_back(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[None, None, None]:
    """Give back what a test left open: a store dies with its process, and a test is none.

    Not where files are faked: closing a number that was faked would close a real one.
    """
    made: list[PosixRoot | PosixStorage] = []
    if "fs" not in request.fixturenames:
        for kind in (PosixRoot, PosixStorage):
            monkeypatch.setattr(kind, "__init__", _remembering(kind.__init__, made))
    yield
    for one in made:
        with contextlib.suppress(BaseException):  # of doubles that fail, or are dead, for ever
            one.close()


def _remembering(
    right: Callable[..., None], made: list[PosixRoot | PosixStorage]
) -> Callable[..., None]:
    def remember(self: PosixRoot | PosixStorage, *given: object, **named: object) -> None:
        right(self, *given, **named)
        made.append(self)

    return remember


def pytest_report_header() -> list[str]:
    """Say under which rules this run stands."""
    optimized = "on" if sys.flags.optimize else "off"
    everything = "every skip fails" if require.require_all() else "skips are listed at the end"
    return [f"python -O: {optimized}; {everything}"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test where the machine lacks what it needs."""
    for marker, requirement in _BY_MARKER.items():
        if item.get_closest_marker(marker) is not None:
            requirement()


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip, however it was made, into a failure when the run must cover everything."""
    if report.skipped and require.require_all():
        report.outcome = "failed"
        report.longrepr = f"LASTGOOD_REQUIRE_ALL=1, but skipped: {_reason(report)}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason a report gives for a skip, or for a failure that was expected."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", report.longrepr))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse a skip of a test, its set-up or its tear-down."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse a skip of a whole module."""
    report = yield
    _refuse_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was not run, with its remedy, where nobody can miss it."""
    reasons = Counter(_reason(report) for report in terminalreporter.getreports("skipped"))
    if reasons:
        terminalreporter.section("not covered by this run")
        for reason, times in sorted(reasons.items()):
            terminalreporter.line(f"{times} x {reason}")
