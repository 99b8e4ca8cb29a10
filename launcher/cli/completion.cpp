#include "cli/completion.hpp"

#include "base/text.hpp"
#include "cli/option_parser.hpp"

#include <vector>

namespace autolaunch::launcher {

namespace {

std::string option_words(Command command) {
    std::vector<std::string> words;
    const OptionShapes shapes = OptionParser(command).shapes();
    for (const auto& [name, shape] : shapes)
        if (name == shape.long_name)
            words.push_back(name);
    return join(words, " ");
}

std::string command_words() {
    std::vector<std::string> words;
    for (const auto& [word, command] : subcommands())
        words.emplace_back(word);
    return join(words, " ");
}

// tcsh's pattern c/--/ has them already.
std::string without_dashes(const std::string& words) {
    std::vector<std::string> bare;
    for (const auto& word : split(words, ' '))
        bare.push_back(word.substr(2));
    return join(bare, " ");
}

// Options where a word begins with a dash, subcommands in the first place, else files.
std::string bash_script() {
    std::string text =
        "_autolaunch() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} options\n"
        "    case ${COMP_WORDS[1]} in\n";
    for (const auto& [word, command] : subcommands())
        if (command != Command::run)
            text += "        " + word + ") options='" + option_words(command) + "' ;;\n";
    text += "        *) options='" + option_words(Command::run) + "' ;;\n    esac\n" +
            "    if [[ $word == -* ]]; then\n"
            "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
            "    elif ((COMP_CWORD == 1)); then\n"
            "        COMPREPLY=($(compgen -W '" +
            command_words() +
            "' -- \"$word\") $(compgen -f -- \"$word\"))\n"
            "    else\n"
            "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
            "    fi\n"
            "}\n"
            "complete -o filenames -F _autolaunch autolaunch\n";
    return text;
}

}  // namespace

std::string completion_script(const std::string& shell) {
    if (shell == "zsh")
        return "autoload -U +X bashcompinit && bashcompinit\n" + bash_script();
    if (shell == "tcsh")
        return "complete autolaunch 'c/--/(" + without_dashes(option_words(Command::run)) +
               ")/' 'p/1/(" + command_words() + ")/' 'p/*/f/'\n";
    return bash_script();
}

}  // namespace autolaunch::launcher
