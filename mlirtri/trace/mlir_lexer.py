"""A Pygments lexer of MLIR's textual IR, registered as ``mlir``."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class MlirLexer(RegexLexer):
    """MLIR: operations, SSA values, symbols, types, attributes, locations."""

    name = "MLIR"
    aliases = ["mlir"]  # noqa: RUF012
    filenames = ["*.mlir"]  # noqa: RUF012
    mimetypes = ["text/x-mlir"]  # noqa: RUF012
    url = "https://mlir.llvm.org/docs/LangRef/"

    tokens: ClassVar[dict] = {
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w$.\-]+(?:#\d+)?", Name.Variable),
            (r"@(?:[\w$.\-]+|\"[^\"\n]*\")", Name.Function),
            (r"\^\w+", Name.Label),
            (r"#[\w$.\-]+", Name.Constant),
            (r"![\w$.\-]+", Keyword.Type),
            (r"\b(?:loc|affine_map|affine_set|dense|dense_resource|strided|opaque|unit)\b", Name.Builtin),
            (r"\b(?:tensor|memref|vector|complex|tuple)(?=<)", Keyword.Type),
            (r"\b(?:index|none|[su]?i\d+|bf16|tf32|f(?:16|32|64|80|128)|f[468]E\w+)\b", Keyword.Type),
            (r"(<)((?:[\d?]+x)+)", bygroups(Punctuation, Number)),
            (r"\b(?:true|false)\b", Keyword.Constant),
            (r"\b(?:ins|outs|to|step|iter_args|attributes|else|do|private|public|nested|symbol|at)\b", Keyword),
            (r"\b(?:func|return|module|call|br|cond_br|yield)\b(?!\.)", Keyword),
            (r"\b[a-zA-Z_]\w*(?:\.[\w$]+)+", Name.Class),
            (r"-?\b(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+)\b", Number),
            (r"->|[=:*+\-]", Operator),
            (r"[(){}\[\]<>,|?]", Punctuation),
            (r"[A-Za-z_][\w$]*", Name),
            (r"\s+", Text),
            (r".", Text),
        ]
    }
