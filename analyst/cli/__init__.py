"""Commands that publish studies, sketch files and show results; entry points register them."""
