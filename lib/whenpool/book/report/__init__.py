"""From stored runs and published numbers to tables, figures and verdicts."""
