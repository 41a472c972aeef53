"""What the attributes of an HTML element say: whether it is text of the page, and in which language code is."""

from __future__ import annotations

import re
from collections.abc import Mapping

Attributes = Mapping[str, str]

_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_PREFORMATTED_STYLE = re.compile(r"white-space\s*:\s*pre\s*(?:;|$)", re.I)
_LINE_NUMBERS = frozenset(
    [
        "lineno",
        "linenos",
        "linenodiv",
        "source-line-no",
        "listing_lines",
        "listing-lines",
        "lnt",
        "line-numbers-rows",
        "hljs-ln-numbers",
        "rouge-gutter",
    ]
)
"""Pygments, Sphinx, Javadoc, gtk-doc, Chroma, Prism, highlight.js, Rouge."""
_CONTROLS = frozenset(
    [
        "copybtn",
        "copy-button",
        "btn-clipboard",
        "clipboard-button",
        "clipboard-copy",
        "copy-code-button",
        "hash-link",
        "ttc",
        "skip-link",
        "skip-to-content",
        "skipnav",
        "skip-nav",
        "MathJax_Preview",
        "katex-html",
    ]
)
"""What generators and scripts put beside the text: buttons, tooltips (Doxygen), a second form of a formula."""
_NAVIGATION = frozenset(
    [
        "navheader",
        "navfooter",
        "sphinxsidebar",
        "sphinxsidebarwrapper",
        "nav-panel",
        "topNav",
        "subNav",
        "bottomNav",
        "top-nav",
        "sub-nav",
        "breadcrumb",
        "breadcrumbs",
        "navigation-header",
    ]
)
"""DocBook, Sphinx, Texinfo, Javadoc."""
_PERMALINKS = frozenset(
    [
        "headerlink",
        "header-anchor",
        "headeranchor",
        "heading-anchor",
        "anchor",
        "anchorlink",
        "anchor-link",
        "hash-link",
        "permalink",
        "heading-link",
        "direct-link",
        "doc-anchor",
        "sl-anchor-link",
        "headinglink",
        "self-link",
        "anchorjs-link",
    ]
)
PERMALINK_SIGNS = frozenset("¶#§🔗⚓↑⇑∞\u200b\ufe0f ")
_COOKIES = re.compile(r"cookie-?(?:banner|consent|notice|bar|popup|message|law)|onetrust|(?:gdpr|consent)-banner", re.I)
_COPY = re.compile(r"\bcopy\b|clipboard|copybtn", re.I)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|highlight|src)-([\w+#-]+)")
_LANGUAGE_BEHIND = re.compile(r"(?:^|\s)(?:sourceCode|hljs|src)\s+([\w+#-]+)|\bbrush:\s*([\w+#-]+)")
_NO_LANGUAGES = frozenset({"default", "none", "text", "undefined", "notranslate", "plaintext", "wrapper"})
_BARE_LANGUAGES = frozenset(
    [
        "rust",
        "python",
        "java",
        "javascript",
        "typescript",
        "c",
        "cpp",
        "csharp",
        "go",
        "ruby",
        "php",
        "perl",
        "bash",
        "shell",
        "sh",
        "sql",
        "json",
        "yaml",
        "toml",
        "xml",
        "html",
        "css",
        "kotlin",
        "swift",
        "scala",
        "haskell",
        "lua",
        "console",
    ]
)
"""Taken for a language when they are the whole class, or its first word, of `pre` or `code`."""


def is_hidden(attributes: Attributes) -> bool:
    """Whether a browser never shows it. A tab is shown by a click, and "until-found" by a search."""
    if attributes.get("role") == "tabpanel" or "tab-pane" in attributes.get("class", ""):
        return False
    if attributes.get("hidden", "until-found") != "until-found":
        return True
    return "style" in attributes and _HIDDEN_STYLE.search(attributes["style"]) is not None


def is_no_text(attributes: Attributes) -> bool:
    """Whether a generator put it there: line numbers, copy buttons, tooltips, cookie banners."""
    if "data-nosnippet" in attributes:
        return True
    names = attributes.get("class", "")
    if not _LINE_NUMBERS.isdisjoint(words := names.split()) or not _CONTROLS.isdisjoint(words):
        return True
    return bool(_COOKIES.search(names) or _COOKIES.search(attributes.get("id", "")))


def is_navigation(attributes: Attributes) -> bool:
    """Whether it leads elsewhere, by its role or a generator's class."""
    if attributes.get("role") in ("navigation", "search"):
        return True
    return not _NAVIGATION.isdisjoint(attributes.get("class", "").split())


def is_permalink(attributes: Attributes, text: str) -> bool:
    """Whether a link with this text is the sign beside a heading that links to itself."""
    if not set(text) <= PERMALINK_SIGNS:
        return False
    href = attributes.get("href", "")
    return href.startswith("#") or not _PERMALINKS.isdisjoint(attributes.get("class", "").split())


def is_permalink_by_class(attributes: Attributes) -> bool:
    """Whether its class says that it links to itself, whatever its text is."""
    words = attributes.get("class", "").split()
    return "headerlink" in words or "header-anchor" in words


def is_copy_button(attributes: Attributes) -> bool:
    """Whether a button copies what stands beside it."""
    return any(_COPY.search(attributes.get(name, "")) for name in ("class", "id", "title", "aria-label"))


def is_preformatted(attributes: Attributes) -> bool:
    """Whether an element that is no `pre` shows code: Doxygen's fragments, or by its style."""
    if "fragment" in attributes.get("class", "").split():
        return True
    return "style" in attributes and _PREFORMATTED_STYLE.search(attributes["style"]) is not None


def code_language(tag: str, attributes: Attributes) -> str:
    """The programming language that the attributes name, "" for none."""
    if named := attributes.get("data-lang") or attributes.get("data-language"):
        return named if re.fullmatch(r"[\w+#-]{1,30}", named) else ""
    names = attributes.get("class", "")
    if not names:
        return ""
    for found in (_LANGUAGE.search(names), _LANGUAGE_BEHIND.search(names)):
        named = next(filter(None, found.groups()), "") if found else ""
        if named and named not in _NO_LANGUAGES and not named.startswith("source"):
            return named
    first = names.split()[0] if names.strip() else ""
    return first if tag in ("pre", "code") and first in _BARE_LANGUAGES else ""
