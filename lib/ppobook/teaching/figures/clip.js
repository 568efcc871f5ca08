function render() {
  throw new Error("not drawn yet");
}

export default { render };
