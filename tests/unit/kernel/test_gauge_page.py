"""The gauge's picture and text: total for whatever the samples tell, and true to them."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sentinel_kernel.kernel import gauge_page
from sentinel_kernel.kernel.usage import Usage
from sentinel_kernel.supervisor import protocol

MIB = 1024 * 1024
NUMBERS = st.none() | st.integers(-1, 1 << 50)
FLOATS = st.none() | st.floats(0, 1e5, allow_nan=False)
TOLD = st.fixed_dictionaries(
    {"ms": st.integers(0, 100_000)},
    optional={
        "memory_bytes": NUMBERS,
        "cpu_percent": FLOATS,
        "cpu_seconds": FLOATS,
        "pids": NUMBERS,
        "disk_bytes": NUMBERS | st.text(max_size=3),
        "files": st.dictionaries(st.sampled_from(["disk_bytes", "tmp_bytes", "home", "<b>"]), NUMBERS),
        "running": st.booleans(),
    },
)
LIMITS = st.dictionaries(
    st.sampled_from(["memory_bytes", "cpu_percent", "pids", "disk_bytes", "tmp_bytes"]), NUMBERS
)


class NoSandbox:
    """Stands for the lifecycle before there is a supervisor."""

    link = None

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}


def usage_of(samples: list[dict[str, Any]]) -> Usage:
    lifecycle = NoSandbox()
    usage = Usage(lifecycle, lambda: None)  # type: ignore[arg-type] # all of it that is needed
    for told in samples:
        lifecycle.told[protocol.EVENT_USAGE]({"sample": told})
    return usage


def sample(ms: int, **changes: Any) -> dict[str, Any]:
    return {"ms": ms, "memory_bytes": 100 * MIB, "cpu_percent": 0.0, "pids": 5, "disk_bytes": 0, **changes}


def rows(
    samples: list[dict[str, Any]], limits: dict[str, float], *, chinese: bool = False
) -> dict[str, gauge_page.Meter]:
    found = gauge_page.meters(usage_of(samples), limits.get, 0, chinese=chinese)
    return {meter.name: meter for meter in found}


@given(st.lists(TOLD, max_size=5), LIMITS, st.booleans())
@example([sample(0, disk_bytes=1 << 40)], {"disk_bytes": -1}, False)
@example([sample(0, disk_bytes=-(1 << 40))], {"disk_bytes": 1}, True)
def test_any_samples_make_a_picture_and_a_text(
    samples: list[dict[str, Any]], limits: dict[str, int | None], chinese: bool
) -> None:
    meters = gauge_page.meters(usage_of(samples), limits.get, 7, chinese=chinese)
    view = gauge_page.View("t", (("<i>", "<b>"),), meters)
    assert "<b>" not in gauge_page.html(view)
    assert "mathjax_ignore" in gauge_page.html(view).split('"')[1].split()
    assert "<i>" not in gauge_page.html(view)
    assert len(gauge_page.plain(view).splitlines()) == 7


def test_a_burst_of_a_tick_is_not_taken_for_many_processors() -> None:
    idle = sample(0, cpu_percent=0.0)
    assert rows([idle, sample(2010, cpu_percent=100.0)], {"cpu_percent": 100})["CPU"].share == 1.0
    burst = [sample(2000 + 100 * n, cpu_percent=50.0) for n in range(10)]
    spike = sample(2903, cpu_percent=333.0)
    share = rows([idle, *burst, spike], {"cpu_percent": 100})["CPU"].share
    assert share is not None
    assert 0.5 <= share < 0.55


def test_a_full_processor_is_no_alarm_and_full_memory_is_in_words() -> None:
    found = rows(
        [sample(0, memory_bytes=99 * MIB, cpu_percent=100.0)], {"memory_bytes": 100 * MIB, "cpu_percent": 100}
    )
    assert found["memory"].text.endswith("(99 %, nearly full)")
    assert found["CPU"].text == "100 % of 100 % (100 %)"
    chinese = rows([sample(0)], {"memory_bytes": 120 * MIB}, chinese=True)
    assert chinese["内存"].text == "100 MiB / 120 MiB（83 %，偏高）"


def test_the_fullest_file_system_is_the_one_that_is_shown() -> None:
    files = {"disk_bytes": 30 * MIB, "tmp_bytes": 20 * MIB}
    found = rows([sample(0, files=files)], {"disk_bytes": 1000 * MIB, "tmp_bytes": 40 * MIB})
    assert found["disk"].text == "20 MiB of 40 MiB (50 %) in /tmp, 50 MiB in all"


def test_the_line_tells_of_each_second_of_the_last_minute() -> None:
    samples = [sample(1000 * second, memory_bytes=second * MIB) for second in range(100, 161, 2)]
    line = rows(samples, {"memory_bytes": 200 * MIB})["memory"].line
    assert len(line) == 60
    assert line[-1] == 0.8
    assert line[-2] is None
    assert line[-3] == 0.79
