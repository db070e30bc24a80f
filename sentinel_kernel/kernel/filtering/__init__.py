"""What the worker shows, made harmless for the browser: pure, by kind of content; imported when first needed."""
