"""Models and indexes over HTTP."""
