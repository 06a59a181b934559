"""`@autotune`: what is measured and when, what is kept, what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelError, KernelTypeError, UnknownNameError, UnknownOptionError


@mt.jit
def repeated(a, times: int):
    for _ in mt.static_range(times):
        a = a + 1.0
    return a


@mt.jit
def counted(a, step: int):
    a[0] += step


CONFIGS = [mt.Config({"times": 1}), mt.Config({"times": 2}), mt.Config({"times": 3})]


def tuned(function=repeated, configs=CONFIGS, winner=1, **options):
    """The function under `autotune` where the configuration at `winner` is the fastest; and what was timed."""
    asked = []

    def bench(call):
        call()
        asked.append(call)
        return 0.5 if (len(asked) - 1) % len(configs) == winner else 1.0

    return mt.autotune(configs, do_bench=bench, **options)(function), asked


def test_the_fastest_configuration_runs_and_is_measured_once_per_key():
    kernel, asked = tuned(key=["a"])
    a = np.zeros(4, np.float32)
    np.testing.assert_array_equal(kernel(a), a + 2)
    np.testing.assert_array_equal(kernel(a + 1), a + 3)
    assert len(asked) == 3
    assert kernel.best_config is CONFIGS[1]
    assert kernel.configs_timings == dict(zip(CONFIGS, [1.0, 0.5, 1.0], strict=True))
    assert kernel.bench_time > 0
    kernel(np.zeros(5, np.float32))
    assert len(asked) == 6
    assert len(kernel.cache) == 2


def test_a_key_that_leaves_shapes_out_holds_for_all_of_them_but_for_one_dtype():
    kernel, asked = tuned(key=[])
    for shape in (3, 4):
        kernel(np.zeros(shape, np.float32))
    assert len(asked) == 3
    kernel(np.zeros(3, np.float64))
    assert len(asked) == 6


def test_time_itself_decides():
    @mt.autotune([mt.Config({"times": 300}), mt.Config({"times": 0})])
    @mt.jit
    def slow(a, times: int):
        for _ in range(times):
            a = torch.sin(a)
        return a

    a = torch.ones(20000)
    torch.testing.assert_close(slow(a), a)
    assert slow.best_config.kwargs == {"times": 0}
    assert slow.configs_timings[slow.configs[0]] > slow.configs_timings[slow.configs[1]]


def test_configurations_say_how_to_compile():
    configs = [mt.Config(pipeline="relax"), mt.Config(pipeline="mlir"), mt.Config(schedule="none", unroll=2)]
    kernel, _ = tuned(configs=configs, winner=1, function=mt.jit(lambda_free))
    compiled = kernel.compile(mt.Tensor((4,), mt.float32))
    assert compiled.pipeline.name == "mlir"
    assert configs[2].all_kwargs() == {"schedule": "none", "unroll": 2}


def lambda_free(a):
    return a * 2.0


def test_measuring_leaves_arguments_alone():
    kernel, asked = tuned(counted, [mt.Config({"step": 1}), mt.Config({"step": 10})], winner=0)
    a = np.zeros(2)
    kernel(a)
    assert a[0] == 1
    assert len(asked) == 2


def test_arguments_are_reset_between_runs():
    seen = []

    def look(arguments):
        seen.append(float(arguments["a"][0]))

    configs = [mt.Config({"step": 1}, pre_hook=look), mt.Config({"step": 2}, pre_hook=look)]
    for options, start in (({"reset_to_zero": ["a"]}, 0.0), ({"restore_value": ["a"]}, 7.0)):
        kernel, _ = tuned(counted, configs, winner=0, **options)
        seen.clear()
        a = np.full(2, 7.0)
        kernel(a)
        assert seen == [start] * 4 + [7.0]
        assert a[0] == 8.0


def test_every_run_finds_what_runs_write_as_the_caller_gave_it():
    seen = []

    def look(arguments):
        seen.append(float(arguments["a"][0]))

    configs = [mt.Config({"step": 1}, pre_hook=look), mt.Config({"step": 2}, pre_hook=look)]
    kernel = mt.autotune(configs)(counted)
    a = np.full(2, 7.0)
    kernel(a)
    assert set(seen) == {7.0}
    assert len(seen) > 10
    assert a[0] in (8.0, 9.0)


def test_pruning():
    def early(configs, named):
        return [config for config in configs if config.kwargs["times"] > named["a"].size]

    asked = []
    kernel = mt.autotune(
        CONFIGS, prune_configs_by={"early_config_prune": early, "perf_model": lambda times, **_: -times, "top_k": 0.5},
        do_bench=lambda call: asked.append(call) or 1.0,
    )(repeated)  # fmt: skip
    np.testing.assert_array_equal(kernel(np.zeros(1, np.float32)), [3])
    assert len(asked) == 1


def test_a_configuration_that_does_not_compile_is_passed_over():
    @mt.jit
    def sliced(a, width: int):
        return a.reshape((width, -1))

    kernel, _ = tuned(sliced, [mt.Config({"width": 7}), mt.Config({"width": 4})], winner=0)
    assert kernel(np.zeros(8, np.float32)).shape == (4, 2)
    assert kernel.configs_timings[kernel.configs[0]] == float("inf")
    with pytest.raises(KernelError, match="reshape") as caught:
        kernel(np.zeros(9, np.float32))
    assert "none of 2 configurations" in str(caught.value)


def test_choices_are_kept_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_TUNING_FILE", str(tmp_path / "tuning.jsonl"))
    first, asked = tuned(cache_results=True)
    first(np.zeros(4, np.float32))
    second, asked_again = tuned(cache_results=True)
    np.testing.assert_array_equal(second(np.zeros(4, np.float32)), [2] * 4)
    assert (len(asked), len(asked_again)) == (3, 0)
    assert second.best_config == CONFIGS[1]
    second(np.zeros(5, np.float32))
    assert len(asked_again) == 3


def test_threads_measure_once():
    kernel, asked = tuned()
    a = np.zeros(4, np.float32)
    threads = [threading.Thread(target=kernel, args=(a,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 3
    assert len(kernel.cache) == 1


def test_out_and_keywords_reach_the_kernel():
    kernel, _ = tuned()
    out = np.empty(4, np.float32)
    kernel(a=np.zeros(4, np.float32), out=out)
    np.testing.assert_array_equal(out, [2] * 4)


def test_choices_can_be_printed(monkeypatch, capsys):
    monkeypatch.setenv("MLIRTRI_PRINT_AUTOTUNING", "1")
    kernel, _ = tuned()
    kernel(np.zeros(4, np.float32))
    assert "repeated: times: 2 is the fastest" in capsys.readouterr().err


def test_what_is_refused():
    with pytest.raises(KernelTypeError, match="a list of"):
        mt.autotune([])
    for given in (CONFIGS[0], repeated):
        with pytest.raises(KernelTypeError, match="a list of"):
            mt.autotune(given)
    for given in (3, ["times"]):
        with pytest.raises(KernelTypeError, match="a dictionary of parameters"):
            mt.Config(given)
    with pytest.raises(KernelTypeError, match="do_bench gives the seconds of a call, not None"):
        mt.autotune(CONFIGS, do_bench=lambda call: None)(repeated)(np.zeros(4, np.float32))
    with pytest.raises(KernelTypeError, match="jit function"):
        mt.autotune(CONFIGS)(lambda_free)
    with pytest.raises(UnknownNameError, match="no parameter 'n'"):
        mt.autotune(CONFIGS, key=["n"])(repeated)
    with pytest.raises(UnknownNameError, match="no parameter 'block'"):
        mt.autotune([mt.Config({"block": 1})])(repeated)
    with pytest.raises(UnknownOptionError, match="schedule"):
        mt.Config(schedule="fast")
    with pytest.raises(UnknownOptionError, match="top"):
        mt.autotune(CONFIGS, prune_configs_by={"top": 3})
    kernel, _ = tuned()
    with pytest.raises(ArgumentMismatchError, match="'times', which its configurations set"):
        kernel(np.zeros(4, np.float32), times=3)
