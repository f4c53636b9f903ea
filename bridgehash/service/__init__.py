"""The HTTP service: models and indexes behind a JSON API and a web page."""
