"""For who writes chapters: their cells linted where they stand, and pages that follow the sources."""
