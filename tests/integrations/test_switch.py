"""Models are switched to loomgen and back, whichever way their layers come by the operator; no transformers needed."""

from __future__ import annotations

import pickle
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loomgen.errors import LoomgenError
from loomgen.integrations import transformers
from loomgen.integrations.transformers import NoLayers, use_loomgen
from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase
from tests.ops.call import arguments

X = torch.ones(1)


def torch_chunk_gated_delta_rule(x: Tensor) -> Tensor:
    """The function that layers of transformers 5 find in their module."""
    return x


def thrice(x: Tensor) -> Tensor:
    return 3 * x


class Calling(nn.Module):
    """As in transformers 5."""

    def forward(self, x: Tensor) -> Tensor:
        return torch_chunk_gated_delta_rule(x)


class Keeping(nn.Module):
    """As in transformers 4.57."""

    def __init__(self) -> None:
        super().__init__()
        self.chunk_gated_delta_rule: Any = torch_chunk_gated_delta_rule

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.chunk_gated_delta_rule(x)
        return found


@pytest.fixture(params=[Calling, Keeping])
def model(request: pytest.FixtureRequest) -> nn.Sequential:
    return nn.Sequential(request.param(), nn.Identity(), request.param())


def test_every_layer_is_switched_and_restored(model: nn.Sequential) -> None:
    before = [dict(vars(layer)) for layer in model]
    switched = use_loomgen(model, rule=thrice)
    assert switched.n_layers == 2 and model(X) == 9
    switched.restore()
    assert model(X) == 1 and [vars(layer) for layer in model] == before
    switched.restore()
    assert model(X) == 1


def test_other_models_stay_as_they_are(model: nn.Sequential) -> None:
    other = type(model[0])()
    use_loomgen(model, rule=thrice)
    assert other(X) == 1


def test_a_context_restores_whatever_happens(model: nn.Sequential) -> None:
    with pytest.raises(KeyError), use_loomgen(model, rule=thrice):
        assert model(X) == 9
        raise KeyError
    assert model(X) == 1


def test_compiled_models_run_what_they_were_switched_to(model: nn.Sequential) -> None:
    with use_loomgen(model, rule=thrice):
        assert torch.compile(model, backend="eager")(X) == 9


def test_layers_that_are_compiled_one_by_one_run_what_they_were_switched_to() -> None:
    model, other = nn.Sequential(Calling(), Calling()), Calling()
    with use_loomgen(model, rule=thrice):
        for layer in (*model, other):
            layer.compile(backend="aot_eager")
        assert model(X) == 9 and other(X) == 1
    assert model(X) == 1


def test_a_pickled_model_can_be_switched_again() -> None:
    model = nn.Sequential(Calling())
    use_loomgen(model, rule=thrice)
    copied = pickle.loads(pickle.dumps(model))
    assert model(X) == 3 and copied(X) == 1
    with use_loomgen(copied, rule=thrice):
        assert copied(X) == 3
    assert copied(X) == 1


def test_loomgen_is_what_runs(model: nn.Sequential, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers, "chunk_rule", thrice)
    with use_loomgen(model):
        assert model(X) == 9


def test_an_argument_of_the_operator_is_never_ignored() -> None:
    given = {**arguments(OpCase(name="few", lengths=(8,), heads=(1, 2), head_dim=64, packed=False)), "scale": 2.0}
    first = [given.pop(name) for name in ("q", "k", "v")]
    o, _ = transformers.chunk_rule(*first, **given, max_length_q=8)
    assert torch.equal(o, chunk_gated_delta_rule(*first, **given)[0])
    with pytest.raises(ValueError, match=r"^A_log: None, expected a tensor"):
        transformers.chunk_rule(*first, **{**given, "use_gate_in_kernel": True})


def test_a_forward_that_someone_replaced_is_not_replaced_again() -> None:
    model = nn.Sequential(Calling())
    use_loomgen(model, rule=thrice)
    with pytest.raises(LoomgenError, match="0: its forward was replaced already"):
        use_loomgen(model)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^model: 'model', expected a torch\.nn\.Module$"):
        use_loomgen("model")  # type: ignore[arg-type]


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(NoLayers, match="Identity: no layer that keeps chunk_gated_delta_rule or calls torch_chunk"):
        use_loomgen(nn.Identity())


def test_the_error_says_whether_transformers_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(transformers, "version", version)
    with pytest.raises(NoLayers, match=r"transformers is not installed: `pip install 'loomgen\[transformers\]'`"):
        use_loomgen(nn.Identity())
    monkeypatch.setattr(transformers, "version", lambda name: "5.17.0")
    with pytest.raises(NoLayers, match=r"transformers 5\.17\.0 is installed"):
        use_loomgen(nn.Identity())
