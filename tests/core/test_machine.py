"""Check how free resources of this machine are measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prompt_coevo import machine


def test_free_memory_is_that_of_the_machine_or_of_its_container(tmp_path: Path) -> None:
    meminfo, limits = tmp_path / "meminfo", tmp_path / "cgroup"
    assert machine.free_memory(meminfo, limits) is None
    meminfo.write_text("MemTotal: 900 kB\nMemAvailable:     700 kB\n")
    assert machine.free_memory(meminfo, limits) == 700 * 1024
    limits.mkdir()
    (limits / "memory.current").write_text("100000\n")
    (limits / "memory.stat").write_text("anon 5\ninactive_file 40000\n")
    for limit, free in (
        ("max", 700 * 1024),
        ("300000", 240_000),
        ("50000", 0),
        ("10000000", 716_800),
    ):
        (limits / "memory.max").write_text(limit)
        assert machine.free_memory(meminfo, limits) == free
    meminfo.write_text("MemAvailable: much\n")
    assert machine.free_memory(meminfo, limits) is None


def test_the_disk_is_that_of_the_first_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "not" / "yet", tmp_path / "file" / "below"):
        free = machine.free_disk(place)
        assert abs(free - shutil.disk_usage(tmp_path).free) < 10**9


def test_sizes_are_written_for_a_reader() -> None:
    sizes = (1_500, 98_362_432, 2_000_000_000)
    assert [machine.shown(one) for one in sizes] == ["1.5 kB", "98.4 MB", "2.0 GB"]


@pytest.mark.parametrize(
    ("line", "native"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("Features\t: fp asimd bf16 i8mm", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("", False),
    ],
)
def test_bfloat16_only_where_the_cpu_has_it(tmp_path: Path, line: str, native: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n", "utf-8")
    assert machine.computes_bfloat16(tmp_path / "cpuinfo") is native
    assert not machine.computes_bfloat16(tmp_path / "none")
