"""A group of commands of which `list` may be left out."""

import click


class ListGroup(click.Group):
    """`sessions --all` is `sessions list --all`. The group alone lists too, unless `no_args_is_help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_list = args[0].startswith("-") and args[0] not in ctx.help_option_names if args else not self.no_args_is_help
        return super().parse_args(ctx, ["list", *args] if is_list else args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where the options of the list are, which can be given to the group itself."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(f"Options alone are those of `list`: {ctx.command_path} list --help")
