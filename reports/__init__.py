"""Reports: frozen data in, one document of blocks, HTML and PDF bytes out."""
