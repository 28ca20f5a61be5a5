"""`rta-supervisor completion`: a script with which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands and options.

    \b
    Examples:  rta-supervisor completion bash > ~/.local/share/bash-completion/completions/rta-supervisor
               rta-supervisor completion zsh > ~/.zfunc/_rta-supervisor
               rta-supervisor completion fish > ~/.config/fish/completions/rta-supervisor.fish
    """
    root = ctx.find_root()
    name = root.info_name or ""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    click.echo(completion_class(root.command, {}, name, variable).source())
