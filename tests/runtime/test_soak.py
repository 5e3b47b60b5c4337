import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak.py"
RUNS = 28


def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    spec.loader.exec_module(module)
    return module


def test_drawn_scenarios_end_as_they_should() -> None:
    argv = [sys.executable, SOAK, "--runs", str(RUNS), "--seed", "5000"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{RUNS} runs, seeds 5000 to {5000 + RUNS - 1}, 0 wrong" in done.stdout
    assert sum(int(line.split()[-1]) for line in table(done.stdout)) == RUNS
    assert len({line[:20] for line in table(done.stdout)}) >= 8, "of many kinds"


def table(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if re.search(r" \d+$", line)]
    return [row for row in rows if not row.startswith("the store")]


def test_the_same_seed_draws_the_same_scenario_and_many_seeds_draw_every_kind() -> None:
    module = soak()
    assert [module.plan_of(seed) for seed in range(50)] == [module.plan_of(seed) for seed in range(50)]
    assert len({module.plan_of(seed).kind for seed in range(400)}) == len(module.KINDS)


def test_a_wrong_ending_and_a_defect_that_was_only_logged_are_named_with_their_seed() -> None:
    module = soak()
    right = module.Outcome(1, "success", "completed", "completed", ())
    other = module.Outcome(2, "success", "completed", "blocked x", ("ended as 'blocked x'",))
    logged = module.Outcome(3, "success", "completed", "completed", ("fluzo.runtime: ended by a defect",))
    assert module.report([right])[1]
    lines, good = module.report([right, other, logged])
    assert not good
    assert [line.partition(" (")[0] for line in lines if line.startswith("WRONG")] == ["WRONG seed 2", "WRONG seed 3"]
