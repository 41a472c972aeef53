"""The Model Context Protocol: knowledge bases as tools of any client."""

from .http import http_app, is_loopback, serve_http
from .server import build_server, serve_stdio

__all__ = ["build_server", "http_app", "is_loopback", "serve_http", "serve_stdio"]
