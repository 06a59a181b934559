"""The architectures of the coverage table: names, and what makes a tiny one with random weights and its arguments."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch

Made = tuple[torch.nn.Module, dict[str, Any]]


@dataclass(frozen=True)
class Model:
    name: str
    make: Callable[[], Made]
    """Returns the module and its keyword arguments."""


LAYERS, HEADS, WIDTH, WORDS = 2, 4, 32, 99
SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "emb_dim"), WIDTH),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "num_encoder_layers", "num_decoder_layers"), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), HEADS),
    **dict.fromkeys(("decoder_attention_heads", "num_experts", "num_local_experts", "n_routed_experts"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size"), WIDTH // HEADS),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_dim", "n_inner"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    **{"vocab_size": WORDS, "image_size": 32, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1},
    **{"eos_token_id": 2, "decoder_start_token_id": 1, "state_size": 8, "time_step_rank": 4, "rotary_dim": 8},
}
"""Values for whichever of these settings a configuration has."""

LEFT_OUT = object()
"""In place of a value: a configuration that has this setting and refuses it."""
MAMBA_HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
STAGES = {"hidden_sizes": [8, 16, 32, 64], "depths": [1] * 4, "num_hidden_layers": LEFT_OUT}
SHIFTED = {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2}

TEXT = """
    albert afmoe apertus arcee bamba bart bert bert-generation big_bird biogpt bitnet blenderbot blenderbot-small
    bloom camembert codegen cohere cohere2 convbert cpmant ctrl data2vec-text deberta deberta-v2 
     diffllama distilbert doge electra ernie ernie4_5 ernie4_5_moe esm exaone4 falcon falcon_h1
    falcon_mamba flaubert flex_olmo fnet fsmt funnel gemma gemma2 gemma3_text glm glm4 glm4_moe gpt2 gpt_bigcode
    gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granitemoe granitemoehybrid granitemoeshared gte
    helium hunyuan_v1_dense hunyuan_v1_moe ibert jamba jetmoe led lfm2 lfm2_moe lilt llama longformer longt5 luke
    m2m_100 mamba mamba2 marian mbart megatron-bert minimax ministral mistral mixtral mobilebert modernbert
    modernbert-decoder mpnet mpt mt5 mvp nanochat nemotron nezha nomic_bert nystromformer olmo olmo2 olmo3 olmoe
    openai-gpt opt pegasus pegasus_x persimmon phi phi3 phimoe plbart prophetnet qwen2 qwen2_moe qwen3 qwen3_moe
    qwen3_next recurrent_gemma reformer rembert roberta roberta-prelayernorm roc_bert roformer rwkv seed_oss
    smollm3 solar_open splinter squeezebert stablelm starcoder2 switch_transformers t5 umt5 vaultgemma
    xglm xlm xlm-roberta xlm-roberta-xl xlnet xlstm xmod zamba zamba2
""".split()
IMAGES = """
    aimv2_vision_model beit bit clip_vision_model convnext convnextv2 cvt data2vec-vision deit dinov2
    dinov2_with_registers dinov3_convnext dinov3_vit efficientnet focalnet glpn hgnet_v2 hiera ijepa levit
    mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 poolformer pvt pvt_v2 regnet resnet segformer
    siglip_vision_model swiftformer swin swinv2 textnet vit vit_mae vit_msn vitdet yolos
""".split()
TIMM = """
    test_byobnet test_coatnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_evos
    test_efficientnet_gn test_efficientnet_ln test_mambaout test_maxvit test_nfnet test_resnet test_vit test_vit2
    test_vit3 test_vit4 test_vit_relpos mobilenetv3_small_050 lcnet_035 resnet10t tinynet_e mnasnet_small
    ghostnet_050 edgenext_xx_small repghostnet_050 semnasnet_075 hardcorenas_a fbnetc_100 regnetx_002 regnety_002
    dla46x_c efficientvit_b0 efficientvit_m0 mobilevit_xxs mobilevitv2_050 mobileone_s0 repvit_m0_9
    xcit_nano_12_p16_224 convmixer_768_32 selecsls42b spnasnet_100 starnet_s1 fasternet_t0 shvit_s1 mixer_s32_224
    gmlp_ti16_224 resmlp_12_224 pit_ti_224 poolformer_s12 visformer_tiny tiny_vit_5m_224 vgg11 densenet121
    cspresnet50 res2net50_14w_8s skresnet18 hrnet_w18_small inception_next_atto
    deit_tiny_patch16_224 cs3darknet_focus_s cspnext_tiny vit_tiny_patch16_dinov3_qkvb hgnetv2_b0 lcnetv2_small
    resnetv2_18 legacy_seresnet18 vit_tiny_r_s16_p8_224 ese_vovnet19b_slim_dw res2next50 vitamin_small_224
    hiera_tiny_224 swin_tiny_patch4_window7_224 legacy_xception xception41p swinv2_tiny_window16_256 inception_v4
""".split()
TORCHVISION = """
    alexnet squeezenet1_1 shufflenet_v2_x0_5 mobilenet_v2 mobilenet_v3_small mnasnet0_5 resnet18 regnet_y_400mf
    googlenet efficientnet_b0 convnext_tiny swin_t maxvit_t vit_b_32
""".split()


def models() -> list[Model]:
    """Return all models whose library is installed and can be imported."""
    found = []
    if transformers := imported("transformers"):
        known = transformers.CONFIG_MAPPING
        found += [Model(name, partial(_text, name)) for name in TEXT if name in known]
        found += [Model(name, partial(_image, name)) for name in IMAGES if name in known]
    if timm := imported("timm"):
        known = set(timm.list_models())
        found += [Model(f"timm {name}", partial(_timm, name)) for name in TIMM if name in known]
    if imported("torchvision"):
        found += [Model(f"torchvision {name}", partial(_torchvision, name)) for name in TORCHVISION]
    return found


def imported(library: str) -> ModuleType | None:
    """Return the library, or None where it is not installed or, which one line says, cannot be imported."""
    if importlib.util.find_spec(library) is None:
        return None
    try:
        return importlib.import_module(library)
    # A library built for another torch raises RuntimeError, OSError or AttributeError, not only ImportError.
    except Exception as error:
        reason = " ".join(str(error).split())
        print(f"{library} is left out, it cannot be imported: {type(error).__name__}: {reason}", flush=True)
        return None


def _configuration(name: str) -> Any:
    from transformers import CONFIG_MAPPING, logging

    logging.set_verbosity_error()
    kind = CONFIG_MAPPING[name]
    plain = kind()
    taken = {key: size for key, size in SIZES.items() if _is_size(plain, key)}
    settings = {**taken, **SPECIAL.get(name, {})}
    configuration = kind(**{key: value for key, value in settings.items() if value is not LEFT_OUT})
    configuration.use_cache = False
    return configuration


def _is_size(configuration: Any, key: str) -> bool:
    value = getattr(configuration, key, "")
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _text(name: str) -> Made:
    from transformers import AutoModel

    module = AutoModel.from_config(_configuration(name))
    words = torch.randint(3, WORDS - 9, (1, 16))
    arguments = {"input_ids": words}
    if "decoder_input_ids" in inspect.signature(module.forward).parameters:
        arguments["decoder_input_ids"] = words[:, :8]
    return module, arguments


def _image(name: str) -> Made:
    from transformers import AutoModel

    return AutoModel.from_config(_configuration(name)), {
        "pixel_values": torch.randn(1, 3, IMAGE_SIZES.get(name, 32), IMAGE_SIZES.get(name, 32))
    }


def _timm(name: str) -> Made:
    import timm

    module = timm.create_model(name, pretrained=False, num_classes=10)
    size = module.default_cfg["input_size"][-1] if module.default_cfg.get("fixed_input_size") else 64
    return module, {"x": torch.randn(1, 3, size, size)}


def _torchvision(name: str) -> Made:
    import torchvision

    size = 224 if name in ("alexnet", "swin_t", "maxvit_t", "vit_b_32") else 64
    return torchvision.models.get_model(name, weights=None), {"x": torch.randn(1, 3, size, size)}


SPECIAL: dict[str, dict[str, Any]] = {
    "reformer": {
        "axial_pos_embds": False,
        "attention_head_size": 8,
        "num_hidden_layers": 2,
        "attn_layers": ["local"] * 2,
    },
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "bamba": {**MAMBA_HEADS, "attn_layer_indices": [1]},
    "granitemoehybrid": {**MAMBA_HEADS, "layer_types": ["mamba", "attention"]},
    "falcon": {"head_dim": LEFT_OUT},
    "falcon_h1": {**MAMBA_HEADS, "mamba_d_ssm": 64},
    "funnel": {"block_sizes": [1, 1], "num_hidden_layers": LEFT_OUT, "architectures": ["FunnelModel"]},
    "prophetnet": {"num_hidden_layers": LEFT_OUT, "num_encoder_layers": 2, "num_decoder_layers": 2},
    "xlnet": {"max_position_embeddings": LEFT_OUT},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "luke": {"entity_vocab_size": 50, "entity_emb_size": 32},
    "zamba": {"layers_block_type": ["mamba", "hybrid"] * 2, "num_hidden_layers": 4},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"], "num_hidden_layers": 2},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "lilt": {"hidden_size": 48, "num_attention_heads": 4},
    **dict.fromkeys(("convnext", "convnextv2", "dinov3_convnext"), STAGES),
    "efficientnet": {"depth_coefficient": 0.1, "width_coefficient": 0.25, "hidden_dim": 320},
    "hiera": {"image_size": [32] * 2, "embed_dim": 16, "depths": [1] * 3, "num_heads": [1, 2, 4], "num_query_pool": 2},
    "mobilevitv2": {"patch_size": 2},
    **dict.fromkeys(("swin", "swinv2"), SHIFTED),
    "resnet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16},
    "regnet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16, "groups_width": 8},
    "bit": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16, "num_groups": 4},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
}
"""Settings of configurations whose parts have to fit each other in a way of their own."""
IMAGE_SIZES: dict[str, int] = {"convnext": 64, "convnextv2": 64, "levit": 64, "mobilevitv2": 64}
"""Pixels of a side, where 32 are too few."""
