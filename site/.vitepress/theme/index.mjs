import DefaultTheme from "vitepress/theme";
import Mermaid from "./mermaid.vue";

export default { extends: DefaultTheme, enhanceApp: ({ app }) => app.component("Mermaid", Mermaid) };
