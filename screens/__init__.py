"""The full screen: a front end on prompt-toolkit that knows the application port and nothing else of Fluzo."""
