"""Which models are refused, and that the sentence says why. Models that work are not refused."""

from __future__ import annotations

import pytest
import torch
import transformers

from specviz.lm import attention
from specviz.lm.plain import PlainLM, load_plain
from specviz.lm.support import (
    check_head,
    check_stock,
    check_tree_reading,
    default_context,
    refusal,
)
from tests.models import (
    FAMILIES,
    edit_config,
    family_config,
    random_model,
    tiny,
    tiny_folder,
    write_folder,
)

CPU = torch.device("cpu")


def load(folder, **options):
    return load_plain(folder, **({"dtype": torch.float32, "device": CPU} | options))


@pytest.mark.parametrize("name", FAMILIES)
def test_families_that_work_are_not_refused(name):
    config = family_config(name)
    assert refusal(config, 128) is None
    lm = PlainLM(random_model(config, attention="eager"), 128)
    assert check_head(lm) is None
    assert check_stock(lm) is None
    assert check_tree_reading(lm) is None


@pytest.mark.parametrize(
    "kind", ["Mamba", "Mamba2", "RecurrentGemma", "Jamba", "FalconH1", "Qwen3Next", "Rwkv", "Bamba"]
)
def test_running_states_are_refused(kind):
    """A11 (a), E08: a cache that cannot be rewound ignores the rollback, silently."""
    reason = refusal(getattr(transformers, f"{kind}Config")(), 128)
    assert "could not forget rejected draft tokens" in reason


@pytest.mark.parametrize("layer", ["conv", "linear_attention", "indexed_attention"])
def test_layers_that_are_not_plain_attention_are_refused(layer):
    config = transformers.Lfm2Config(num_hidden_layers=2, layer_types=[layer, "full_attention"])
    assert f"not plain attention ({layer})" in refusal(config, 128)


def test_a_window_that_goes_by_another_name():
    config = transformers.GPTNeoConfig(attention_types=[[["global", "local"], 12]])
    assert "window of 256 tokens" in refusal(config, 512)
    assert refusal(config, 256) is None


def test_encoder_decoders_are_refused():
    assert "encoder-decoder" in refusal(transformers.T5Config(), 128)


def test_encoders_are_refused():
    assert "not a causal language model" in refusal(transformers.ViTConfig(), 128)


@pytest.mark.parametrize(
    ("config", "window"),
    [
        (family_config("mistral", sliding_window=64), 64),
        (family_config("gemma2", sliding_window=64), 64),
        (family_config("gemma3", sliding_window=64), 64),
        (family_config("phi3", sliding_window=64), 64),
        (
            family_config("qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=1),
            64,
        ),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
def test_windows_shorter_than_the_context_are_refused(config, window):
    assert f"window of {window} tokens" in refusal(config, window + 1)
    assert refusal(config, window) is None


def test_a_window_that_is_switched_off_does_not_count():
    config = family_config("qwen2", use_sliding_window=False, sliding_window=64)
    assert refusal(config, 128) is None


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rotations_that_change_with_the_length(kind):
    """Keys cached before the change would not match those a longer pass writes."""
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind == "longrope":
        rope |= {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope["original_max_position_embeddings"] = 64
    config = family_config("llama", rope_parameters=rope)
    assert refusal(config, 64) is None
    assert "past 64 tokens" in refusal(config, 65)


def test_contexts():
    config = family_config("llama")
    assert "holds 2 to 128 tokens; a context of 129" in refusal(config, 129)
    assert "a context of 0" in refusal(config, 0)
    assert refusal(config, 128) is None
    assert default_context(config) == 128
    assert default_context(family_config("llama", max_position_embeddings=131072)) == 4096


class TestSelfCheck:
    """What a config cannot tell is found by trying."""

    def test_a_boolean_mask_under_eager_attention(self, monkeypatch):
        """Eager attention adds the mask: booleans are silently wrong there."""

        def boolean(visible, num_cached, *, dtype, device):
            seen = torch.ones(len(visible), num_cached, dtype=torch.bool)
            return torch.cat([seen, visible], -1)[None, None]

        lm = tiny(attention="eager")
        assert check_tree_reading(lm) is None
        monkeypatch.setattr("specviz.lm.plain.additive_mask", boolean)
        assert "reads a tree differently" in check_tree_reading(lm)

    def test_a_causal_mask_instead_of_the_trees(self, monkeypatch):
        monkeypatch.setattr(
            "specviz.lm.plain.visible_rows", lambda tree: attention.causal_rows(len(tree))
        )
        assert "reads a tree differently" in check_tree_reading(tiny())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_half_precision_passes_when_right_and_fails_when_wrong(self, dtype, monkeypatch):
        lm = PlainLM(random_model(family_config("llama")).to(dtype), 128)
        assert check_head(lm) is None
        assert check_stock(lm) is None
        assert check_tree_reading(lm) is None
        monkeypatch.setattr(
            "specviz.lm.plain.visible_rows", lambda tree: attention.causal_rows(len(tree))
        )
        assert "reads a tree differently" in check_tree_reading(lm)

    def test_positions_by_row_instead_of_depth(self, monkeypatch):
        lm = tiny()
        inputs = lm._inputs
        monkeypatch.setattr(
            lm, "_inputs", lambda tokens, depths, *rest: inputs(tokens, range(len(tokens)), *rest)
        )
        assert "reads a tree differently" in check_tree_reading(lm)

    def test_positions_that_are_consistently_wrong(self, monkeypatch):
        """Trees and chains agree with each other, and not with the model itself."""
        lm = tiny()
        inputs = lm._inputs
        monkeypatch.setattr(
            lm,
            "_inputs",
            lambda tokens, depths, *rest: inputs(tokens, [3 * d for d in depths], *rest),
        )
        assert "differently from the model's own" in check_stock(lm)

    def test_a_head_with_a_scale_that_is_not_known(self, monkeypatch):
        lm = tiny()
        monkeypatch.setattr(lm, "_scaling", lambda logits: 0.5 * logits)
        assert "not known here" in check_head(lm)

    def test_nan_is_refused(self):
        lm = tiny()
        lm.model.model.norm.weight.data.fill_(torch.nan)
        assert check_tree_reading(lm) is not None
        assert check_head(lm) is not None

    def test_a_pass_that_raises_is_a_reason(self, monkeypatch):
        lm = tiny()

        def broken(*args):
            raise TypeError("no 4-D mask here")

        monkeypatch.setattr(lm, "read", broken)
        assert "no 4-D mask here" in check_tree_reading(lm)


class TestLoading:
    def test_a_folder_loads_as_saved(self, tmp_path):
        folder = tiny_folder(tmp_path)
        lm = load(folder)
        assert (lm.vocab_size, lm.max_context, lm.dtype) == (328, 512, torch.float32)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        ids = torch.tensor([[5, 6, 7]])
        assert torch.equal(lm.model(input_ids=ids).logits, model.eval()(input_ids=ids).logits)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_half_precision(self, tmp_path, dtype):
        assert load(tiny_folder(tmp_path), dtype=dtype).dtype == dtype

    def test_context(self, tmp_path):
        folder = tiny_folder(tmp_path)
        assert load(folder, context=100).max_context == 100
        with pytest.raises(ValueError, match="a context of 1000"):
            load(folder, context=1000)

    def test_a_refused_config_is_refused_before_its_weights_are_read(self, tmp_path):
        transformers.MambaConfig().save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="could not forget"):
            load(tmp_path)

    @pytest.mark.parametrize(
        ("kind", "shape"),
        [
            ("Bloom", {"hidden_size": 64, "n_layer": 2, "n_head": 4}),
            ("Mpt", {"d_model": 64, "n_layers": 2, "n_heads": 4}),
            ("Bert", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}),
        ],
    )
    def test_what_only_trying_can_tell_ends_in_a_sentence(self, tmp_path, kind, shape):
        """ALiBi by row and no limit of positions in the config; an encoder that poses as a decoder.

        The missing limit was once read as an attribute and ended in a bare AttributeError.
        """
        config = getattr(transformers, f"{kind}Config")(vocab_size=97, **shape)
        write_folder(tmp_path, random_model(config, attention="eager"))
        with pytest.raises(ValueError, match="This model|A cached pass"):
            load(tmp_path)

    def test_no_folder_and_no_config(self, tmp_path):
        with pytest.raises(ValueError, match=r"no config\.json"):
            load(tmp_path / "nowhere")

    @pytest.mark.parametrize("text", ["", "{", '{"model_type": "no-such-model"}', "[]", "{}"])
    def test_a_config_that_is_none(self, tmp_path, text):
        folder = tiny_folder(tmp_path)
        (folder / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"config\.json"):
            load(folder)

    def test_a_config_with_a_wrong_type(self, tmp_path):
        folder = tiny_folder(tmp_path)
        edit_config(folder, hidden_size="wide")
        with pytest.raises(ValueError, match=r"config\.json"):
            load(folder)

    def test_code_in_the_folder_is_not_run(self, tmp_path):
        """J14: a checkpoint may name a Python file of its own."""
        folder = tiny_folder(tmp_path)
        marker = tmp_path / "ran"
        (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
        names = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
        edit_config(folder, auto_map=names, model_type="evil")
        with pytest.raises(ValueError, match=r"config\.json"):
            load(folder)
        assert not marker.exists()

    def test_pickled_weights_are_not_opened(self, tmp_path):
        folder = tiny_folder(tmp_path)
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(ValueError, match="safetensors"):
            load(folder)

    @pytest.mark.parametrize("size", [0, 130, 5000, -1])
    def test_weights_cut_short(self, tmp_path, size):
        """J13: an obscure header error helps nobody."""
        folder = tiny_folder(tmp_path)
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(ValueError, match="weights.*fetch"):
            load(folder)

    def test_missing_tensors_are_not_filled_with_noise(self, tmp_path):
        """F01: only a warning, then random weights."""
        folder = tiny_folder(tmp_path)
        edit_config(folder, num_hidden_layers=3)
        with pytest.raises(ValueError, match=r"lack .* tensors .*layers\.2"):
            load(folder)

    def test_weights_of_another_shape(self, tmp_path):
        folder = tiny_folder(tmp_path)
        edit_config(folder, intermediate_size=128)
        with pytest.raises(ValueError, match="weights"):
            load(folder)
