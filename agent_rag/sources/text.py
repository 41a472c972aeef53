"""Text in memory as a source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of


class TextSource(SourceBase):
    """Documents given as text. Nothing is ever read from disk."""

    def __init__(self, texts: Mapping[str, str], *, name: str = "text", metadata: MetadataFor | None = None) -> None:
        """
        Args:
            texts: Document id -> text. An id with an extension (``a.md``) chooses the parser.
            name: Tells its documents from those of other sources: a second TextSource of one name replaces the first.
            metadata: Of every document, or a function from a document's id to its metadata.
        """
        self.texts = dict(texts)
        self.name = name
        self._metadata = metadata

    async def list(self) -> Listing:
        items = []
        for document_id, text in self.texts.items():
            data = text.encode("utf-8", "ignore")
            items.append(
                SourceItem(
                    document_id=document_id,
                    uri=f"text:{hashlib.sha256(f'{self.name}/{document_id}'.encode()).hexdigest()[:32]}",
                    data=data,
                    filename=document_id,
                    media_type=None if "." in document_id else "text/plain",
                    metadata=metadata_of(self._metadata, document_id),
                )
            )
        return Listing(items=items)
