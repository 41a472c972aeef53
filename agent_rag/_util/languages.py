"""Which programming language a file is written in, by its name, then by what its first lines say."""

from __future__ import annotations

import re
from pathlib import PurePath

_EXTENSIONS = {
    "asm": ".asm .s", "bash": ".bash .bats .ksh .sh .zsh", "bat": ".bat .cmd", "c": ".c .h",
    "clojure": ".clj .cljc .cljs .edn",
    "cmake": ".cmake", "cpp": ".cc .cpp .cu .cuh .cxx .hh .hpp .hxx .inl .ino .ipp .tcc .tpp", "csharp": ".cs .csx",
    "css": ".css", "cython": ".pxd .pyx", "dart": ".dart", "dockerfile": ".containerfile .dockerfile",
    "elixir": ".ex .exs", "elm": ".elm", "embedded": ".ejs .erb", "erlang": ".erl .hrl",
    "fortran": ".f .f03 .f90 .f95 .for",
    "fsharp": ".fs .fsi .fsx", "go": ".go", "graphql": ".gql .graphql", "groovy": ".gradle .groovy .jenkinsfile",
    "haskell": ".hs", "hcl": ".hcl .tf .tfvars", "ini": ".cfg .conf .editorconfig .ini .properties", "java": ".java",
    "javascript": ".cjs .es6 .js .jsx .mjs", "jsonc": ".json5 .jsonc", "julia": ".jl", "kotlin": ".kt .kts",
    "less": ".less",
    "lisp": ".cl .el .lisp", "lua": ".lua", "make": ".mak .mk", "nim": ".nim", "nix": ".nix", "objc": ".m .mm",
    "ocaml": ".ml .mli", "pascal": ".dpr .pas", "perl": ".pl .pm", "php": ".php .phtml",
    "powershell": ".ps1 .psd1 .psm1",
    "prolog": ".prolog", "proto": ".proto", "python": ".py .pyi .pyw", "r": ".r", "racket": ".rkt",
    "ruby": ".gemspec .rake .rb .ru", "rust": ".rs", "scala": ".sbt .sc .scala", "scheme": ".scm .ss",
    "scss": ".sass .scss",
    "solidity": ".sol", "sql": ".ddl .sql", "starlark": ".bzl .star", "svelte": ".svelte", "swift": ".swift",
    "tcl": ".tcl",
    "thrift": ".thrift", "toml": ".toml", "tsx": ".tsx", "typescript": ".cts .mts .ts", "vb": ".vb .vbs",
    "verilog": ".sv .svh .v .vh", "vhdl": ".vhd .vhdl", "vim": ".vim", "vue": ".vue", "wgsl": ".wgsl", "zig": ".zig",
}  # fmt: skip
LANGUAGE_BY_EXTENSION = {
    extension: language for language, extensions in _EXTENSIONS.items() for extension in extensions.split()
}
"""Ending with its dot, lower case -> language."""
_NAMES = {
    "bash": ".bash_profile .bashrc .profile .zshrc apkbuild pkgbuild", "cmake": "cmakelists.txt",
    "dockerfile": "containerfile dockerfile", "groovy": "jenkinsfile", "ini": ".editorconfig .gitconfig",
    "make": "gnumakefile kbuild makefile", "ruby": "brewfile capfile gemfile guardfile podfile rakefile vagrantfile",
    "starlark": "build build.bazel tiltfile workspace", "toml": "pipfile",
}  # fmt: skip
LANGUAGE_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}
"""Whole file name, lower case -> language; ``Dockerfile.test`` counts as ``Dockerfile``."""
_INTERPRETERS = {
    "ash": "bash", "bash": "bash", "dash": "bash", "deno": "typescript", "elixir": "elixir", "escript": "erlang",
    "groovy": "groovy", "julia": "julia", "ksh": "bash", "lua": "lua", "luajit": "lua", "make": "make",
    "node": "javascript",
    "nodejs": "javascript", "perl": "perl", "php": "php", "pwsh": "powershell", "pypy": "python", "python": "python",
    "rscript": "r", "ruby": "ruby", "sh": "bash", "swift": "swift", "tclsh": "tcl", "zsh": "bash",
}  # fmt: skip
_ALIASES = {
    "c#": "csharp", "c++": "cpp", "console": "bash", "cs": "csharp", "docker": "dockerfile", "golang": "go",
    "ipython": "python",
    "ipython3": "python", "js": "javascript", "jsx": "javascript", "makefile": "make", "objective-c": "objc",
    "objectivec": "objc",
    "py": "python", "py3": "python", "python3": "python", "rb": "ruby", "rs": "rust", "sh": "bash", "shell": "bash",
    "terraform": "hcl", "ts": "typescript", "viml": "vim", "yml": "yaml", "zsh": "bash",
}  # fmt: skip
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*(?:\S*/)?)?([A-Za-z]+)")
_MODELINE = re.compile(
    r"-\*-\s*(?:.*?\bmode:\s*)?([\w+#-]+)\s*(?:;.*?)?-\*-|\b(?:vim?|ex):.*?\b(?:ft|filetype|syntax)=([\w+#-]+)", re.I
)
_CPP_HEADER = re.compile(
    r"^[ \t]*+(?:template\s*<|(?:inline\s+)?namespace\b"
    r"|using\s+\w|class\s+\w[\w\s:]*[{:]|(?:public|private|protected)\s*:"
    r"|#\s*include\s*<(?:algorithm|array|atomic|c\w+|chrono|functional|iostream|map|memory|mutex|optional|string|thread"
    r"|utility|variant|vector)>)",
    re.M,
)
_HEAD = 4096
LANGUAGES = frozenset(_EXTENSIONS) | {"html", "yaml"}


def language_of(filename: str, text: str = "") -> str | None:
    """The language of a file; None when neither its name nor its first line (shebang) nor a modeline tells.

    Args:
        text: The content, or its beginning; without it the name decides alone.
    """
    name = PurePath(filename).name.lower()
    named = LANGUAGE_BY_NAME.get(name) or LANGUAGE_BY_EXTENSION.get(PurePath(name).suffix)
    if named is None and name.partition(".")[0] in ("dockerfile", "containerfile", "makefile", "jenkinsfile"):
        named = LANGUAGE_BY_NAME[name.partition(".")[0]]
    if named == "c" and name.endswith(".h") and _CPP_HEADER.search(text):
        return "cpp"
    return named or (_told_by_text(text) if not PurePath(name).suffix else None)


def language_named(name: str) -> str | None:
    """The language that a fence, a notebook or a modeline calls `name`."""
    found = name.strip().lower()
    found = _ALIASES.get(found, found)
    return found if found in LANGUAGES else None


def _told_by_text(text: str) -> str | None:
    head = text[:_HEAD]
    if shebang := _SHEBANG.match(head):
        return _INTERPRETERS.get(shebang[1].lower())
    lines = head.split("\n", 5)[:5] + text[-_HEAD:].split("\n")[-5:]
    for line in lines:
        if found := _MODELINE.search(line[:500]):
            return language_named(found[1] or found[2])
    return None
