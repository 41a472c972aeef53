"""The grammars of CodeChunker, and what in each of their trees has a name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .._util.extras import needs
from ..errors import MissingExtraError

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grammar:
    """A wheel with a grammar inside. (tree-sitter-language-pack downloads grammars at run time since 1.0.)"""

    module: str
    symbols: str = ""
    """Types of the nodes that define a name, divided by spaces."""
    function: str = "language"


_C = "function_definition struct_specifier enum_specifier union_specifier type_definition preproc_function_def"
_JS = (
    "function_declaration generator_function_declaration class_declaration method_definition variable_declarator class"
)
_TS = f"{_JS} interface_declaration enum_declaration type_alias_declaration internal_module abstract_class_declaration"

GRAMMARS: dict[str, Grammar] = {
    "bash": Grammar("tree_sitter_bash", "function_definition"),
    "c": Grammar("tree_sitter_c", _C),
    "cpp": Grammar("tree_sitter_cpp", f"{_C} class_specifier namespace_definition concept_definition"),
    "csharp": Grammar(
        "tree_sitter_c_sharp",
        "namespace_declaration class_declaration struct_declaration record_declaration"
        " interface_declaration enum_declaration method_declaration constructor_declaration property_declaration"
        " delegate_declaration local_function_statement",
    ),
    "css": Grammar("tree_sitter_css", "rule_set media_statement keyframes_statement"),
    "cython": Grammar("tree_sitter_python", "function_definition class_definition"),
    "dart": Grammar("tree_sitter_dart", "class_definition mixin_declaration extension_declaration enum_declaration"),
    "dockerfile": Grammar("tree_sitter_containerfile"),
    "elixir": Grammar("tree_sitter_elixir"),
    "embedded": Grammar("tree_sitter_embedded_template"),
    "go": Grammar("tree_sitter_go", "function_declaration method_declaration type_spec"),
    "groovy": Grammar("tree_sitter_groovy", "class_definition function_definition"),
    "haskell": Grammar("tree_sitter_haskell", "function data_type class newtype"),
    "hcl": Grammar("tree_sitter_hcl", "block"),
    "html": Grammar("tree_sitter_html"),
    "java": Grammar(
        "tree_sitter_java",
        "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration"
        " method_declaration constructor_declaration",
    ),
    "javascript": Grammar("tree_sitter_javascript", _JS),
    "julia": Grammar("tree_sitter_julia", "module_definition struct_definition function_definition macro_definition"),
    "kotlin": Grammar("tree_sitter_kotlin", "class_declaration object_declaration function_declaration"),
    "lua": Grammar("tree_sitter_lua", "function_declaration"),
    "make": Grammar("tree_sitter_make", "rule"),
    "objc": Grammar(
        "tree_sitter_objc", f"{_C} class_interface class_implementation protocol_declaration method_definition"
    ),
    "ocaml": Grammar("tree_sitter_ocaml", "module_binding type_binding let_binding", "language_ocaml"),
    "php": Grammar(
        "tree_sitter_php",
        "namespace_definition class_declaration interface_declaration trait_declaration enum_declaration"
        " function_definition method_declaration",
        "language_php",
    ),
    "powershell": Grammar("tree_sitter_powershell", "function_statement class_statement class_method_definition"),
    "python": Grammar("tree_sitter_python", "function_definition class_definition"),
    "ruby": Grammar("tree_sitter_ruby", "module class method singleton_method"),
    "rust": Grammar(
        "tree_sitter_rust",
        "mod_item struct_item enum_item union_item trait_item impl_item function_item type_item macro_definition",
    ),
    "scala": Grammar(
        "tree_sitter_scala", "class_definition object_definition trait_definition enum_definition function_definition"
    ),
    "sql": Grammar("tree_sitter_sql", "create_table create_view create_function create_index create_trigger"),
    "svelte": Grammar("tree_sitter_html"),
    "swift": Grammar("tree_sitter_swift", "class_declaration protocol_declaration function_declaration"),
    "toml": Grammar("tree_sitter_toml", "table table_array_element"),
    "tsx": Grammar("tree_sitter_typescript", _TS, "language_tsx"),
    "typescript": Grammar("tree_sitter_typescript", _TS, "language_typescript"),
    "vue": Grammar("tree_sitter_html"),
    "yaml": Grammar("tree_sitter_yaml", "block_mapping_pair"),
    "zig": Grammar("tree_sitter_zig", "function_declaration"),
}


def grammar_of(language: str) -> Language | None:
    """The compiled grammar; None without one for `language`, or without the extra ``code``.

    It and the queries made of it are constant after they are made, so threads may share them; a Parser and a
    QueryCursor keep state, and each call makes its own.
    """
    return _loaded(language) if language in GRAMMARS else None


@cache
def _loaded(language: str) -> Language | None:
    grammar = GRAMMARS[language]
    try:
        tree_sitter = needs("code", "tree_sitter", purpose="CodeChunker")
        module = needs("code", grammar.module, purpose=f"CodeChunker for {language}")
    except MissingExtraError as error:
        logger.info("%s code is cut at lines: %s", language, error)
        return None
    loaded: Language = tree_sitter.Language(getattr(module, grammar.function)())
    return loaded


def parser_of(grammar: Language) -> Parser:
    """A parser for one call: another thread or loop may parse at the same time."""
    parser: Parser = needs("code", "tree_sitter", purpose="CodeChunker").Parser(grammar)
    return parser


def definitions_in(root: Node, language: str) -> list[Node]:
    """The nodes below `root` that define a name, in their order."""
    query = _query(language)
    if query is None:
        return []
    cursor = needs("code", "tree_sitter", purpose="CodeChunker").QueryCursor(query)
    return sorted(cursor.captures(root).get("d", []), key=lambda node: (node.start_byte, -node.end_byte))


@cache
def _query(language: str) -> Query | None:
    symbols = GRAMMARS[language].symbols.split()
    grammar = grammar_of(language)
    if not symbols or grammar is None:
        return None
    known = [name for name in symbols if grammar.id_for_node_kind(name, True)]
    query: Query = needs("code", "tree_sitter", purpose="CodeChunker").Query(
        grammar, f"[{' '.join(f'({name})' for name in known)}] @d"
    )
    return query
