"""What several engines share: heads and versions of documents, filters, BM25, and the queue of an embedded engine."""
