#include "lint/launch_edits.hpp"

#include <cstddef>

namespace autolaunch::launcher {

Edits add_srun_option(const Subject& subject, const Launch& launch, const std::string& option) {
    return launch.by_srun ? replace_word(subject.source, launch.line, "srun", "srun " + option)
                          : Edits{};
}

Edits put_before_tool(const Subject& subject, const Launch& launch, const std::string& text) {
    const Word& word = launch.program[launch.tool_at];
    return replace_word(subject.source, word.line, word.raw, text + ' ' + word.raw);
}

Edits set_tool_option(const Subject& subject, const Launch& launch, const std::string& name,
                      const std::string& value) {
    const Word* word = launch.option_word(name);
    if (word == nullptr) {
        std::size_t last = launch.tool_at;  // of python -m torch.distributed.run the module
        if (launch.program[last].value.find("python") != std::string::npos)
            last += 2;
        if (last >= launch.program.size())
            return {};
        const Word& tool = launch.program[last];
        return replace_word(subject.source, tool.line, tool.raw,
                            tool.raw + ' ' + name + '=' + value);
    }
    if (const std::size_t equals = word->raw.find('='); equals != std::string::npos)
        return replace_word(subject.source, word->line, word->raw,
                            word->raw.substr(0, equals + 1) + value);
    const std::size_t next = static_cast<std::size_t>(word - launch.program.data()) + 1;
    if (next >= launch.program.size())
        return {};
    const Word& old = launch.program[next];
    if (old.line == word->line)
        return replace_text(subject.source, old.line, word->raw + ' ' + old.raw,
                            word->raw + ' ' + value);
    return replace_word(subject.source, old.line, old.raw, value);
}

Edits remove_tool_flag(const Subject& subject, const Launch& launch, const std::string& name) {
    const Word* word = launch.option_word(name);
    return word == nullptr ? Edits{} : remove_word(subject.source, word->line, word->raw);
}

Edits set_option_value(const SourceLines& source, const SlurmOption& option,
                       const std::string& value) {
    if (!option.separate.empty())
        return replace_option(source, option, option.written + ' ' + value);
    const std::size_t equals = option.written.find('=');
    if (equals != std::string::npos && !option.short_form)
        return replace_option(source, option, option.written.substr(0, equals + 1) + value);
    return option.short_form && option.has_value && option.written.size() > 2
               ? replace_option(source, option, option.written.substr(0, 2) + value)
               : Edits{};
}

Edits set_tasks_per_node(const Subject& subject, const Launch& launch, long long tasks) {
    const SbatchScript& script = subject.script;
    const auto nodes = nodes_of(launch, script);
    for (const SlurmOption* option :
         {launch.srun_option("ntasks-per-node"), launch.srun_option("ntasks"),
          script.option("ntasks-per-node"), script.option("ntasks")}) {
        if (option == nullptr)
            continue;
        const bool all = option->name == "ntasks";
        if (all && (!nodes || *nodes < 1 || *nodes > 100'000))
            return {};
        return set_option_value(subject.source, *option,
                                std::to_string(all ? tasks * *nodes : tasks));
    }
    return {};
}

Edits add_directive(const Subject& subject, const SlurmOption& option, const std::string& text) {
    const std::string* line = subject.source.at(option.line);
    if (line == nullptr || subject.source.at(option.line + 1) == nullptr)
        return {};
    const std::string indentation = line->substr(0, line->find_first_not_of(" \t"));
    return {{option.line + 1, 1, "", indentation + "#SBATCH " + text + '\n'}};
}

}  // namespace autolaunch::launcher
