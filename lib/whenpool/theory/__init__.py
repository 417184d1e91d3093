"""What can be said of recurrences and poolings without training them (thesis §2.1); derived for this book."""
