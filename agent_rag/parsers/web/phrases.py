"""What stands inside the lines of a page: links, code, formulas, pictures, indexes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from .attributes import PERMALINK_SIGNS, Attributes, code_language, is_permalink, is_preformatted
from .blocks import squeezed
from .code import Closer, RawText
from .inline import Code, fenced, subscript, superscript
from .math import Formula, in_dollars
from .writer import Opener, PageWriter

_DATA_IMAGE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+)$")


class EmbeddedImage(NamedTuple):
    """An image that stands in the page itself."""

    media_type: str
    data: str
    """Base64, perhaps with white space."""
    alt: str


class PhraseWriter(PageWriter):
    """Writes links, code, formulas, pictures, superscripts and subscripts."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[EmbeddedImage] = []
        """Of ``data:`` addresses."""
        self._languages: list[str] = []
        """Of the elements around code."""
        self._formula: Formula | None = None

    def _begin_a(self, attributes: Attributes) -> Closer:
        self._push(is_inline=True)
        return lambda: self._end_link(attributes)

    def _end_link(self, attributes: Attributes) -> None:
        scope = self._scopes.pop()
        raw = "".join(scope.inline)
        scope.flush()
        parent = self._scopes[-1]
        parent.has_link = True
        if len(scope.blocks) != 1 or scope.structured or "\n" in scope.blocks[0]:
            parent.adopt(scope)
            return
        text = scope.blocks[0]
        if set(text) <= PERMALINK_SIGNS and is_permalink(attributes, text):
            return
        target = attributes.get("href", "").strip()
        is_plain = self._heading_depth or parent.before().endswith("!")
        if target and not is_plain and not target.startswith(("#", "javascript:", "data:")) and len(target) <= 2_000:
            text = f"[{text}]({target.replace(' ', '%20')})"
        parent.write(f"{raw[:1].isspace() * ' '}{text}{raw[-1:].isspace() * ' '}")

    def _begin_img(self, attributes: Attributes) -> Closer:
        alt, source = " ".join(attributes.get("alt", "").split()), attributes.get("src", "").strip()
        if embedded := _DATA_IMAGE.match(source):
            self.images.append(EmbeddedImage(embedded[1], embedded[2], alt))
        if alt and self._heading_depth:
            self._scopes[-1].write(alt)
        elif alt and not self._muted:
            target = "" if source.startswith("data:") or len(source) > 500 else source
            self._scopes[-1].write(f"![{alt}]({target})")
        return None

    def _begin_br(self, attributes: Attributes) -> Closer:
        self._scopes[-1].write("\n")
        return None

    def _begin_sup(self, attributes: Attributes) -> Closer:
        self._push(is_inline=True)
        return lambda: self._end_index(is_super=True)

    def _begin_sub(self, attributes: Attributes) -> Closer:
        self._push(is_inline=True)
        return lambda: self._end_index(is_super=False)

    def _end_index(self, *, is_super: bool) -> None:
        inner, parent = self._pop(), self._scopes[-1]
        text = squeezed(inner.text())
        before = parent.before()
        parent.has_link |= inner.has_link
        parent.write(superscript(before, text, is_link=inner.has_link) if is_super else subscript(before, text))

    def _begin_script(self, attributes: Attributes) -> Closer:
        """TeX for MathJax; other scripts are left out."""
        self._raw = RawText()
        is_block = "mode=display" in attributes.get("type", "").replace(" ", "")
        return lambda: self._end_script(is_block)

    def _end_script(self, is_block: bool) -> None:
        if tex := " ".join(self._taken_raw().text().split()):
            self._scopes[-1].write(in_dollars(tex, is_block=is_block))

    def _begin_math(self, attributes: Attributes) -> Closer:
        self._formula = Formula(attributes)
        return self._end_math

    def _end_math(self) -> None:
        formula, self._formula = self._formula, None
        if formula is not None:
            self._scopes[-1].write(formula.written())

    def _begin_code(self, attributes: Attributes) -> Closer:
        self._raw = RawText(code_language("code", attributes))
        return self._end_code

    def _end_code(self) -> None:
        raw = self._taken_raw()
        if raw.is_block and not self._heading_depth:
            self._scopes[-1].flush()
            self._add_code(raw)
            return
        written = raw.text()
        scope = self._scopes[-1]
        text = " ".join(written.split())
        if not text:
            scope.write(" " * bool(written))
            return
        if written[0].isspace():
            scope.write(" ")
        if self._heading_depth:
            scope.write(text)
        elif scope.inline and isinstance(scope.inline[-1], Code):
            scope.inline[-1] = Code(scope.inline[-1].text + text)
        else:
            scope.write(Code(text))
        if written[-1].isspace():
            scope.write(" ")

    def _begin_pre(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._raw = RawText(code_language("pre", attributes), is_block=True)
        return lambda: self._add_code(self._taken_raw())

    def _add_code(self, raw: RawText) -> None:
        text = raw.text().strip("\n").rstrip()
        if text.strip():
            self._scopes[-1].add(fenced(text, raw.language or (self._languages[-1] if self._languages else "")))

    def _begin_div(self, attributes: Attributes) -> Closer:
        """A block; it may name the language of the code in it, or be code itself."""
        self._scopes[-1].flush()
        language = code_language("div", attributes) if attributes else ""
        if attributes and is_preformatted(attributes):
            return self._begin_pre(attributes)
        if not language:
            return self._end_block
        self._languages.append(language)
        return self._end_language

    def _end_language(self) -> None:
        self._languages.pop()
        self._scopes[-1].flush()

    phrase_openers: ClassVar[Mapping[str, Opener]] = {
        "a": _begin_a, "br": _begin_br, "code": _begin_code, "div": _begin_div, "img": _begin_img, "math": _begin_math,
        "pre": _begin_pre, "script": _begin_script, "sub": _begin_sub, "sup": _begin_sup,
    }  # fmt: skip
