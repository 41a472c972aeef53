"""The stand-in for Tencent Cloud VectorDB answers the exchanges that the vendor's documentation has, as it has them.

Pages of product 1709 (2025-08): create 95116, upsert 95120, query 95122, search 95123, update 98667, delete 95124,
filters 112947, and for scores 111392, of which the request is hybrid: .9 times what one vector scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

requests = pytest.importorskip("requests", reason="pip install 'agent-rag-middleware[tcvector]' to run this")

from .tcvectordb_filter import FilterError, parse  # noqa: E402
from .tcvectordb_server import TcVectorDBServer  # noqa: E402

Post = Callable[..., dict[str, Any]]
WHERE = {"database": "db-test", "collection": "book-vector"}
BOOKS = [
    {"id": "0001", "vector": [0.2123, 0.21, 0.213], "author": "罗贯中", "bookName": "三国演义", "page": 21},
    {"id": "0002", "vector": [0.2123, 0.22, 0.213], "author": "吴承恩", "bookName": "西游记", "page": 22},
    {"id": "0003", "vector": [0.2123, 0.23, 0.213], "author": "曹雪芹", "bookName": "红楼梦", "page": 23},
]
TWO_BOOKS = 'bookName in ("三国演义","西游记")'
CREATE = {
    **WHERE,
    "replicaNum": 1,
    "shardNum": 1,
    "description": "this is the collection description",
    "indexes": [
        {"fieldName": "id", "fieldType": "string", "indexType": "primaryKey"},
        {
            "fieldName": "vector",
            "fieldType": "vector",
            "indexType": "HNSW",
            "dimension": 3,
            "metricType": "IP",
            "params": {"M": 16, "efConstruction": 200},
        },
        {"fieldName": "sparse_vector", "fieldType": "sparseVector", "indexType": "inverted", "metricType": "IP"},
        {"fieldName": "bookName", "fieldType": "string", "indexType": "filter"},
        {"fieldName": "author", "fieldType": "string", "indexType": "filter"},
        {"fieldName": "expired_at", "fieldType": "uint64", "indexType": "filter"},
    ],
    "filterIndexConfig": {"filterAll": True, "fieldsWithoutIndex": ["page"], "maxStrLen": 32},
    "ttlConfig": {"enable": True, "timeField": "expired_at"},
}


@pytest.fixture
def post() -> Iterator[Post]:
    """Sends a body to a path of a server that has the published collection."""
    with TcVectorDBServer(lags=False) as url, requests.Session() as session:

        def send(path: str, body: dict[str, Any], key: str = "standin") -> dict[str, Any]:
            header = {"Authorization": f"Bearer account=root&api_key={key}"}
            answer: dict[str, Any] = session.post(url + path, json=body, headers=header, timeout=5).json()
            return answer

        assert send("/database/create", {"database": "db-test"})["code"] == 0
        assert send("/collection/create", CREATE)["code"] == 0
        assert send("/document/upsert", {**WHERE, "buildIndex": True, "documents": BOOKS})["affectedCount"] == 3
        yield send


def test_a_query(post: Post) -> None:
    """By ids and a filter, of which two of three meet both."""
    query = {
        "documentIds": ["0001", "0002", "0003"],
        "retrieveVector": True,
        "filter": TWO_BOOKS,
        "limit": 3,
        "offset": 0,
        "outputFields": ["id", "author", "bookName", "page"],
    }

    answer = post("/document/query", {**WHERE, "readConsistency": "eventualConsistency", "query": query})

    assert answer == {
        "code": 0,
        "msg": "operation success",
        "count": 2,
        "documents": [
            {"id": "0001", "author": "罗贯中", "bookName": "三国演义", "page": 21},
            {"id": "0002", "author": "吴承恩", "bookName": "西游记", "page": 22},
        ],
    }


def test_a_search(post: Post) -> None:
    """The published score of book 0001 is .18177326 with a weight of .9."""
    search = {
        "vectors": [[0.3123, 0.43, 0.213]],
        "params": {"ef": 200},
        "retrieveVector": False,
        "filter": TWO_BOOKS,
        "outputFields": ["id", "author", "bookName"],
        "limit": 3,
    }

    (found,) = post("/document/search", {**WHERE, "search": search})["documents"]

    assert [one["id"] for one in found] == ["0002", "0001"]
    assert 0.9 * found[1]["score"] == pytest.approx(0.18177326023578644, abs=1e-8)


def test_an_update(post: Post) -> None:
    """Of the two ids one meets the filter: its vector and a field change, and one is new."""
    query = {"documentIds": ["0001", "0003"], "filter": TWO_BOOKS}
    update = {"vector": [0.2123, 0.28, 0.213], "page": 30, "test_new_field": "new field value"}

    answer = post("/document/update", {**WHERE, "query": query, "update": update})

    asked = {"documentIds": ["0001"], "retrieveVector": True, "limit": 1}
    (after,) = post("/document/query", {**WHERE, "query": asked})["documents"]
    assert answer == {"code": 0, "msg": "operation success", "affectedCount": 1}
    assert after == {
        "id": "0001",
        "vector": [0.21230000257492066, 0.2800000011920929, 0.21299999952316284],
        "author": "罗贯中",
        "bookName": "三国演义",
        "page": 30,
        "test_new_field": "new field value",
    }


def test_a_deletion(post: Post) -> None:
    """By ids and a filter, and by a filter alone."""
    both = {"documentIds": ["0001", "0002", "0003"], "filter": TWO_BOOKS, "limit": 2}

    deleted = [
        post("/document/delete", {**WHERE, "query": query})["affectedCount"]
        for query in (both, {"filter": 'bookName != "西游记"'})
    ]

    assert deleted == [2, 1]
    assert post("/document/count", WHERE)["count"] == 0


def test_words(post: Post) -> None:
    """Full text search scores the inner product of sparse vectors: 2 * .96 + .443, and 2 * .5."""
    sparse = {"0001": [[2, 0.96], [5, 0.53], [100, 0.443]], "0002": [[3, 0.9]], "0003": [[2, 0.5]]}
    books = [{**book, "sparse_vector": sparse[str(book["id"])]} for book in BOOKS]
    post("/document/upsert", {**WHERE, "documents": books})
    match = {"fieldName": "sparse_vector", "data": [[[2, 2.0], [100, 1.0]]]}

    (found,) = post("/document/fullTextSearch", {**WHERE, "search": {"match": match, "limit": 3}})["documents"]

    assert [(one["id"], one["score"]) for one in found] == [
        ("0001", pytest.approx(2.363, abs=1e-6)),
        ("0003", pytest.approx(1.0, abs=1e-6)),
    ]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/collection/describe", {"database": "other", "collection": "c"}, 15301),
        ("/collection/describe", {**WHERE, "collection": "other"}, 15302),
        ("/collection/create", CREATE, 15000),
        ("/document/upsert", {**WHERE, "documents": [BOOKS[0]] * 1_001}, 15000),
        ("/document/upsert", {**WHERE, "documents": [{"id": "x", "vector": [1.0]}]}, 15000),
        ("/document/upsert", {**WHERE, "documents": [{**BOOKS[0], "expired_at": -1}]}, 15000),
        ("/document/query", {**WHERE, "query": {"documentIds": [str(n) for n in range(21)]}}, 15000),
        ("/document/query", {**WHERE, "query": {"filter": "page = 1"}}, 15000),
        ("/document/query", {**WHERE, "query": {"limit": 16_385}}, 15000),
        ("/document/delete", {**WHERE, "query": {}}, 15000),
        ("/document/search", {**WHERE, "search": {"vectors": [[1.0, 0.0, 0.0]], "unknown": 1}}, 15000),
    ],
)
def test_what_is_refused(post: Post, path: str, body: dict[str, Any], code: int) -> None:
    """What is not there, above a documented limit, of another type, without an index, or not documented."""
    assert post(path, body)["code"] == code


def test_another_key_is_refused(post: Post) -> None:
    """Whatever is asked."""
    assert post("/document/count", WHERE, key="wrong")["msg"].startswith("Unauthorized")


TYPES = {"game_tag": "string", "video_tag": "string", "expired_time": "uint64", "name": "array"}
ROWS: list[dict[str, Any]] = [
    {"game_tag": "Robert", "video_tag": "dance", "expired_time": 3, "name": ["Bob", "Jack"]},
    {"game_tag": "1000", "expired_time": 10, "name": ["Bob"]},
    {},
]


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ('game_tag = "Robert" and (video_tag = "dance" or video_tag = "music")', [0]),
        ('game_tag = "1000" or video_tag = "dance"', [0, 1]),
        ('game_tag = "x" or game_tag = "1000" and expired_time > 5', [1]),
        ('game_tag in("Detective","Robert")', [0]),
        ('game_tag not in ("Robert")', [1]),
        ("expired_time >= 3 and expired_time < 10", [0]),
        ("expired_time != 3", [1]),
        ('name include ("Bob", "Jack")', [0, 1]),
        ('name exclude ("Jack")', [1]),
    ],
)
def test_filters(expression: str, kept: list[int]) -> None:
    """Operators and precedence; a row without the field meets nothing."""
    matches = parse(expression, TYPES)

    assert [place for place, row in enumerate(ROWS) if matches(row)] == kept


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "expired_time",
        "expired_time = 1 and",
        "(expired_time = 1",
        "expired_time = 1)",
        "expired_time = -1",
        'expired_time = "1"',
        "game_tag = 'single'",
        'game_tag = "say \\"hi\\""',
        'game_tag > "a"',
        'name = "a"',
        "name include (1)",
        "game_tag in ()",
        "other = 1",
    ],
)
def test_what_is_no_filter(expression: str) -> None:
    """Bad syntax, other quotes, operators and values of other types, fields without an index."""
    with pytest.raises(FilterError):
        parse(expression, TYPES)
