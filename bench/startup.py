"""The rows of the command line's first word."""

from measure import Row, Setting, interleave


def version(setting: Setting) -> Row:
    fluzo = setting.python.with_name("fluzo")
    samples = interleave(
        setting.process(fluzo, "--version"), setting.process(setting.python, "-c", "pass"), setting.samples
    )
    return Row("fluzo --version", "python -c pass", 1.6, *samples)


def help_text(setting: Setting) -> Row:
    fluzo = setting.python.with_name("fluzo")
    samples = interleave(
        setting.process(fluzo, "--help"), setting.process(setting.python, "-c", "import typer"), setting.samples
    )
    return Row("fluzo --help", 'python -c "import typer"', 1.5, *samples)
